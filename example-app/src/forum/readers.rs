use std::collections::BTreeMap;
use std::time::Duration;

use counter_core::{AdaptiveUniqueCounter, CounterName, Distinct, UniqueCounter, UniqueStore, VisitorId};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// As many wait for the store; who comes then is not told apart.
const WAITING: usize = 10_000;

/// As long a page waits to say how many there are.
const PATIENCE: Duration = Duration::from_millis(250);

/// How many different people read a post. Somebody means the visitor of the access counter, who has another id
/// on the next day, and counts once more then.
#[derive(Clone, Debug)]
pub(super) struct Readers<S>(S);

/// Where requests leave the readers, who are in the store soon after.
#[derive(Clone, Debug)]
pub(super) struct Door(mpsc::Sender<(u32, VisitorId)>);

/// Takes the readers from the door to the store.
#[derive(Debug)]
pub(super) struct Usher<S> {
    readers: Readers<S>,
    waiting: mpsc::Receiver<(u32, VisitorId)>,
}

impl<S: UniqueStore> Readers<S> {
    pub(super) const fn new(store: S) -> Self {
        Self(store)
    }

    pub(super) fn door(&self) -> (Door, Usher<S>) {
        let (door, waiting) = mpsc::channel(WAITING);
        (Door(door), Usher { readers: self.clone(), waiting })
    }

    /// How many there are; `None` while the store does not say.
    pub(super) async fn of(&self, post: u32) -> Option<Distinct> {
        timeout(PATIENCE, self.counter(post).count()).await.ok()?.ok()
    }

    fn counter(&self, post: u32) -> AdaptiveUniqueCounter<S> {
        let name = CounterName::new(&format!("readers of post {post}")).expect("a short text");
        AdaptiveUniqueCounter::new(self.0.clone(), name)
    }
}

impl Door {
    pub(super) fn enter(&self, post: u32, reader: VisitorId) {
        // Where it is full, a request does not wait.
        let _ = self.0.try_send((post, reader));
    }
}

impl<S: UniqueStore> Usher<S> {
    /// Until there are no doors any more, and all who came through them are in the store, or it is away then.
    pub(super) async fn run(mut self) {
        let mut came = Vec::new();
        while self.waiting.recv_many(&mut came, 500).await > 0 {
            let mut of_posts = BTreeMap::<_, Vec<_>>::new();
            for (post, reader) in came.drain(..) {
                of_posts.entry(post).or_default().push(reader);
            }
            for (post, readers) in of_posts {
                let counter = self.readers.counter(post);
                // Whoever is in already stays so: this may be done as often as one likes.
                while let Err(error) = counter.include_all(&readers).await {
                    if self.waiting.is_closed() {
                        tracing::warn!(%error, "the last readers are not in the store");
                        return;
                    }
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}
