use counter_core::entity::{EntityError, EntityFlusher};
use counter_core::unstable::SqliteDatabase;
use counter_core::visits::Agent;
use counter_layer::{AccessCounterLayer, Outcome, Visit};

use super::Forum;
use super::kind::Post;
use super::readers::ReaderWriter;

/// Maximum number of posts with views that are not in the database yet.
const MAX_POSTS: usize = 10_000;

/// Writes views and readers to the database and the store.
#[derive(Debug)]
pub struct Feed {
    views: EntityFlusher<Post, SqliteDatabase>,
    readers: ReaderWriter,
}

impl Forum {
    /// Extends the layer to count views and readers when a post is shown to a person. Handlers do not need to
    /// be changed, and requests never wait for the database.
    pub fn with_feed(&self, layer: AccessCounterLayer) -> (AccessCounterLayer, Feed) {
        let (views, flusher) = self.posts.write_behind(MAX_POSTS);
        let (queue, writer) = self.readers.queue();
        let layer = layer.on_count(move |visit| {
            let (post, reader) = (post(visit)?, visit.visitor);
            let (views, queue) = (views.clone(), queue.clone());
            Some(move |outcome: Outcome| {
                if outcome.is_success() {
                    // If the queue is full, the loss is recorded in the ledger of the views.
                    let _ = views.add(u64::from(post), Post::Views, 1);
                    if let Some(reader) = reader {
                        queue.push(post, reader);
                    }
                }
            })
        });
        (layer, Feed { views: flusher, readers: writer })
    }
}

/// Returns the post if a person requests it.
fn post(visit: &Visit<'_>) -> Option<u32> {
    let is_counted = visit.head.method == "GET" && visit.agent != Agent::Bot;
    let number = visit.head.uri.path().strip_prefix("/posts/").filter(|_| is_counted)?;
    number.parse().ok()
}

impl Feed {
    /// Runs until `shutdown` completes, and then tries to write everything that is left. The layer must be
    /// dropped before this.
    ///
    /// # Errors
    ///
    /// Returns an error if the database does not accept the final views in time.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), EntityError> {
        let (views, ()) = tokio::join!(self.views.run(shutdown), self.readers.run());
        views
    }
}
