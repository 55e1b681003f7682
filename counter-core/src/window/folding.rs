use std::num::NonZeroU32;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

use super::clock::StoreClock;
use super::dimensions::Dimensions;
use super::fold::{Fold, add_folded};
use super::settings::Settings;
use super::store::{Addition, WindowKey, WindowStore};
use crate::error::{Error, ErrorKind};
use crate::time::Timestamp;

/// A front for increments at a high rate: concurrent increments share a store call.
///
/// [`WindowCounters::folding`](crate::window::WindowCounters::folding) creates this together with the
/// [`FoldingWorker`], which sends the calls sequentially. During a call, up to 16,384 increments are queued;
/// further callers will wait for a free slot. Callers get the same result as for an individual increment.
///
/// ```
/// use std::num::NonZeroU32;
/// use counter_core::window::{Dimensions, Window, WindowCounters};
/// use counter_core::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (front, worker) = WindowCounters::new(MemoryStore::new(), Window::DAY).folding();
/// let worker = tokio::spawn(worker.run());
///
/// let banner = Dimensions::new().text("banner", "spring");
/// let (one, other) = tokio::join!(
///     front.increment(&banner, NonZeroU32::MIN),
///     front.increment(&banner, NonZeroU32::MIN),
/// );
/// assert_eq!((one?, other?), (1, 2));
///
/// drop(front); // the worker exits when all fronts are dropped
/// worker.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FoldingFront {
    settings: Settings,
    clock: StoreClock,
    queue: mpsc::Sender<Waiting>,
}

/// A worker that sends the increments queued by a [`FoldingFront`]. It must be [run](Self::run), otherwise
/// increments will not be counted.
#[derive(Debug)]
#[must_use = "increments are not counted unless the worker runs"]
pub struct FoldingWorker {
    store: Arc<dyn WindowStore>,
    queue: mpsc::Receiver<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    addition: Addition,
    reply: oneshot::Sender<Result<u64, Error>>,
}

/// Queue capacity, and the maximum number of increments per call.
const CAPACITY: usize = 16_384;

pub(super) fn pair(
    store: Arc<dyn WindowStore>,
    settings: Settings,
    clock: StoreClock,
) -> (FoldingFront, FoldingWorker) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (FoldingFront { settings, clock, queue: sender }, FoldingWorker { store, queue: receiver })
}

impl FoldingFront {
    /// Increments a counter in the current window of the store clock: see
    /// [`increment_at`](Self::increment_at).
    ///
    /// # Errors
    /// Fails like [`increment_at`](Self::increment_at).
    ///
    /// # Cancel safety
    /// If the future is dropped, the increment may still be counted.
    pub async fn increment(&self, dimensions: &Dimensions, n: NonZeroU32) -> Result<u64, Error> {
        self.clock.call(|now| self.increment_in(self.settings.now(dimensions, now), n)).await
    }

    /// Increments a counter in the window that contains `at`, and returns the new count.
    ///
    /// # Errors
    /// Fails like [`WindowCounters::increment_at`](crate::window::WindowCounters::increment_at), with the
    /// same error for all increments that share the call. Also returns [`ErrorKind::Unconfirmed`] if the
    /// worker is dropped during the call, and [`ErrorKind::Rejected`] if the worker has already exited.
    ///
    /// # Cancel safety
    /// If the future is dropped, the increment may still be counted.
    pub async fn increment_at(
        &self,
        dimensions: &Dimensions,
        n: NonZeroU32,
        at: Timestamp,
    ) -> Result<u64, Error> {
        self.increment_in(self.settings.at(dimensions, at), n).await
    }

    async fn increment_in(&self, key: WindowKey, n: NonZeroU32) -> Result<u64, Error> {
        let (reply, answered) = oneshot::channel();
        let waiting = Waiting { addition: Addition { key, amount: n.get().into() }, reply };
        let ended = |kind| Error::new(kind).caused_by("the folding worker has stopped");
        self.queue.send(waiting).await.map_err(|_| ended(ErrorKind::Rejected))?;
        answered.await.unwrap_or_else(|_| Err(ended(ErrorKind::Unconfirmed)))
    }
}

impl FoldingWorker {
    /// Sends queued increments until all fronts are dropped and the queue is empty.
    ///
    /// # Cancel safety
    /// Dropping the future stops the worker. Waiting callers will get an error that says their increment may
    /// have been counted.
    pub async fn run(mut self) {
        let mut waiting = Vec::new();
        while self.queue.recv_many(&mut waiting, CAPACITY).await > 0 {
            // Yield, so that increments arriving together with the first can share the call.
            yield_now().await;
            while waiting.len() < CAPACITY
                && let Ok(another) = self.queue.try_recv()
            {
                waiting.push(another);
            }
            let (additions, replies): (Vec<_>, Vec<_>) =
                waiting.drain(..).map(|Waiting { addition, reply }| (addition, reply)).unzip();
            let fold = Fold::of(additions);
            for (reply, waiting) in add_folded(&*self.store, &fold).await.into_iter().zip(replies) {
                // The caller might have been dropped.
                drop(waiting.send(reply));
            }
        }
    }
}
