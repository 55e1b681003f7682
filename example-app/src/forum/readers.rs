use std::collections::HashSet;
use std::time::Duration;

use counter_core::visitor::VisitorKey;
use counter_core::window::{Dimensions, Window, WindowCounters, WindowStore};
use counter_core::{ErrorKind, Secret, Timestamp, VisitorId};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::pause::Pause;

/// Readers that may wait for the store; those beyond are not counted.
const WAITING: usize = 10_000;

/// As long a page waits to say how many there are.
const PATIENCE: Duration = Duration::from_millis(250);

/// As many days before today readers are counted of; then the store forgets them by itself.
const DAYS: u8 = 29;

/// Counts the different readers of each post, by day, for the last thirty days. A reader is a visitor of the access
/// counter, which has another id on the next day and then counts once more.
///
/// The store has their ids, so these are made with a secret that is not there.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    days: WindowCounters,
    key: VisitorKey,
    pause: Pause,
}

/// The queue in which requests leave their readers, which reach the store soon after.
#[derive(Clone, Debug)]
pub(super) struct Door(mpsc::Sender<(u32, VisitorId)>);

/// Takes the readers from the door to the store.
#[derive(Debug)]
pub(super) struct Usher {
    readers: Readers,
    waiting: mpsc::Receiver<(u32, VisitorId)>,
}

impl Readers {
    pub(super) fn new(store: impl WindowStore, secret: &Secret) -> Self {
        let days = WindowCounters::new(store, Window::DAY).keep(DAYS);
        Self { days, key: secret.key("readers"), pause: Pause::default() }
    }

    /// The same under another secret.
    pub(super) fn under(mut self, secret: &Secret) -> Self {
        self.key = secret.key("readers");
        self
    }

    pub(super) fn door(&self) -> (Door, Usher) {
        let (door, waiting) = mpsc::channel(WAITING);
        (Door(door), Usher { readers: self.clone(), waiting })
    }

    /// How many there are; `None` while the store does not say.
    pub(super) async fn of(&self, post: u32) -> Option<u64> {
        if !self.pause.admits() {
            return None;
        }
        let post = of_post(post);
        let days =
            timeout(PATIENCE, self.days.history(&post, Timestamp::now())).await.ok().and_then(Result::ok);
        self.pause.set(days.is_none());
        Some(days?.iter().map(|day| day.count).sum())
    }

    async fn count(&self, post: u32, reader: VisitorId) -> Result<(), counter_core::Error> {
        let token = self.key.visitor(&[reader.as_bytes()]);
        self.days.increment_once(&of_post(post), token).await.map(drop)
    }
}

fn of_post(post: u32) -> Dimensions {
    Dimensions::new().scope("readers").text("post", &post.to_string())
}

impl Door {
    pub(super) fn enter(&self, post: u32, reader: VisitorId) {
        // Where it is full, a request does not wait.
        let _ = self.0.try_send((post, reader));
    }
}

impl Usher {
    /// Runs until there are no doors any more, and all readers that came through them are in the store, or it is
    /// away then.
    pub(super) async fn run(mut self) {
        let (mut came, log) = (Vec::new(), Pause::default());
        while self.waiting.recv_many(&mut came, 500).await > 0 {
            for (post, reader) in came.drain(..).collect::<HashSet<_>>() {
                // A reader that is in the set stays there: this may be repeated.
                while let Err(error) = self.readers.count(post, reader).await {
                    if *error.kind() != ErrorKind::Unavailable {
                        if log.admits() {
                            log.set(true);
                            tracing::warn!(%error, post, "a reader is not counted");
                        }
                        break;
                    }
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
