use std::collections::HashSet;
use std::time::Duration;

use counter_core::visitor::VisitorKey;
use counter_core::window::{Dimensions, Window, WindowCounters, WindowStore};
use counter_core::{ErrorKind, Secret, Timestamp, VisitorId};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::pause::Pause;

/// Maximum number of readers that are waiting for the store. Additional readers are not counted.
const MAX_QUEUED_READERS: usize = 10_000;

/// Maximum time that a page waits for the number of readers.
const READ_TIMEOUT: Duration = Duration::from_millis(250);

/// Number of days before today for which readers are counted. After this, they expire in the store.
const RETENTION_DAYS: u8 = 29;

/// Counts the distinct readers per post and day, for the last thirty days. A reader is a visitor of the
/// access counter. Visitor ids change every day, so a reader that returns on another day is counted once
/// more.
///
/// Because the store contains reader ids, they are derived with a secret that is not stored.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    days: WindowCounters,
    key: VisitorKey,
    pause: Pause,
}

/// Queue of readers that are not in the store yet.
#[derive(Clone, Debug)]
pub(super) struct ReaderQueue(mpsc::Sender<(u32, VisitorId)>);

/// Writes the queued readers to the store.
#[derive(Debug)]
pub(super) struct ReaderWriter {
    readers: Readers,
    waiting: mpsc::Receiver<(u32, VisitorId)>,
}

impl Readers {
    pub(super) fn new(store: impl WindowStore, secret: &Secret) -> Self {
        let days = WindowCounters::new(store, Window::DAY).keep(RETENTION_DAYS);
        Self { days, key: secret.key("readers"), pause: Pause::default() }
    }

    /// Replaces the secret.
    pub(super) fn with_secret(mut self, secret: &Secret) -> Self {
        self.key = secret.key("readers");
        self
    }

    pub(super) fn queue(&self) -> (ReaderQueue, ReaderWriter) {
        let (queue, waiting) = mpsc::channel(MAX_QUEUED_READERS);
        (ReaderQueue(queue), ReaderWriter { readers: self.clone(), waiting })
    }

    /// Returns the number of readers, or `None` if the store is unavailable.
    pub(super) async fn of(&self, post: u32) -> Option<u64> {
        if !self.pause.admits() {
            return None;
        }
        let post = of_post(post);
        let days =
            timeout(READ_TIMEOUT, self.days.history(&post, Timestamp::now())).await.ok().and_then(Result::ok);
        self.pause.set(days.is_none());
        Some(days?.iter().map(|day| day.count).fold(0, u64::saturating_add))
    }

    async fn count(&self, post: u32, reader: VisitorId) -> Result<(), counter_core::Error> {
        let token = self.key.visitor(&[reader.as_bytes()]);
        self.days.increment_once(&of_post(post), token).await.map(drop)
    }
}

fn of_post(post: u32) -> Dimensions {
    Dimensions::new().scope("readers").text("post", &post.to_string())
}

impl ReaderQueue {
    pub(super) fn push(&self, post: u32, reader: VisitorId) {
        // If the queue is full, the reader is dropped because a request should not wait.
        let _ = self.0.try_send((post, reader));
    }
}

impl ReaderWriter {
    /// Runs until the queue is closed and empty. If the store is unavailable at this point, the final readers
    /// are lost.
    pub(super) async fn run(mut self) {
        let (mut batch, log) = (Vec::new(), Pause::default());
        while self.waiting.recv_many(&mut batch, 500).await > 0 {
            for (post, reader) in batch.drain(..).collect::<HashSet<_>>() {
                // This can be retried because adding a reader is idempotent.
                while let Err(error) = self.readers.count(post, reader).await {
                    if *error.kind() != ErrorKind::Unavailable {
                        if log.admits() {
                            log.set(true);
                            tracing::warn!(%error, post, "failed to count a reader");
                        }
                        break;
                    }
                    if self.waiting.is_closed() {
                        tracing::warn!(%error, "failed to store the last readers");
                        return;
                    }
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}
