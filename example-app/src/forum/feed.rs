use counter_core::entity::{EntityError, EntityFlusher, SqliteDatabase};
use counter_core::visits::Agent;
use counter_layer::{AccessCounterLayer, Outcome, Visit};

use super::Forum;
use super::kind::Post;
use super::readers::Usher;

/// As many posts wait for the database with their views.
const POSTS: usize = 10_000;

/// Takes to database and store what requests left in memory.
#[derive(Debug)]
pub struct Feed {
    views: EntityFlusher<Post, SqliteDatabase>,
    readers: Usher,
}

impl Forum {
    /// Lets the access counter count views and readers of posts along with its hits: of people who were shown
    /// the post. A handler knows nothing of it, and no request waits.
    pub fn fed_by(&self, layer: AccessCounterLayer) -> (AccessCounterLayer, Feed) {
        let (views, flusher) = self.posts.write_behind(POSTS);
        let (door, usher) = self.readers.door();
        let layer = layer.on_count(move |visit| {
            let (post, reader) = (post(visit)?, visit.visitor);
            let (views, door) = (views.clone(), door.clone());
            Some(move |outcome: Outcome| {
                if outcome.is_success() {
                    // What finds no place is in its ledger.
                    let _ = views.add(u64::from(post), Post::Views, 1);
                    if let Some(reader) = reader {
                        door.enter(post, reader);
                    }
                }
            })
        });
        (layer, Feed { views: flusher, readers: usher })
    }
}

/// Returns the post that a person asks for.
fn post(visit: &Visit<'_>) -> Option<u32> {
    let wanted = visit.head.method == "GET" && visit.agent != Agent::Bot;
    let number = visit.head.uri.path().strip_prefix("/posts/").filter(|_| wanted)?;
    number.parse().ok()
}

impl Feed {
    /// Goes on until `shutdown`, and then until everything has arrived, if that is soon. The layer has to be
    /// gone by then.
    ///
    /// # Errors
    /// When views are left that the database did not take in time.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), EntityError> {
        let (views, ()) = tokio::join!(self.views.run(shutdown), self.readers.run());
        views
    }
}
