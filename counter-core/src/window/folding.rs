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

/// A front for increments at a high rate: those that wait at the same time share one call.
///
/// It comes from [`WindowCounters::folding`](crate::window::WindowCounters::folding) with the
/// [`FoldingWorker`] that makes the calls, one after the other. While a call is under way, up to 16,384
/// increments gather; a caller beyond that waits for a free slot first. Each caller gets the answer that it
/// would have had alone.
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
/// drop(front); // the worker ends with the last front
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

/// A worker that sends what waits at a [`FoldingFront`]; nothing is counted unless it [runs](Self::run).
#[derive(Debug)]
#[must_use = "nothing is counted unless it runs"]
pub struct FoldingWorker {
    store: Arc<dyn WindowStore>,
    queue: mpsc::Receiver<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    addition: Addition,
    answer: oneshot::Sender<Result<u64, Error>>,
}

/// The number of increments that may wait, and that may share a call.
const PLACES: usize = 16_384;

pub(super) fn pair(
    store: Arc<dyn WindowStore>,
    settings: Settings,
    clock: StoreClock,
) -> (FoldingFront, FoldingWorker) {
    let (sender, receiver) = mpsc::channel(PLACES);
    (FoldingFront { settings, clock, queue: sender }, FoldingWorker { store, queue: receiver })
}

impl FoldingFront {
    /// Increments in the window that is current by the store's clock: see
    /// [`increment_at`](Self::increment_at).
    ///
    /// # Errors
    /// Fails as [`increment_at`](Self::increment_at) does.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment(&self, dimensions: &Dimensions, n: NonZeroU32) -> Result<u64, Error> {
        self.clock.call(|now| self.increment_in(self.settings.now(dimensions, now), n)).await
    }

    /// Increments in the window of an instant, and returns the new count.
    ///
    /// # Errors
    /// Fails as [`WindowCounters::increment_at`](crate::window::WindowCounters::increment_at) does, with the
    /// same error for all increments that shared the call. Returns [`ErrorKind::Unconfirmed`] also when the
    /// worker was dropped during the call, and [`ErrorKind::Refused`] when it had ended before.
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment_at(
        &self,
        dimensions: &Dimensions,
        n: NonZeroU32,
        at: Timestamp,
    ) -> Result<u64, Error> {
        self.increment_in(self.settings.at(dimensions, at), n).await
    }

    async fn increment_in(&self, key: WindowKey, n: NonZeroU32) -> Result<u64, Error> {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { addition: Addition { key, amount: n.get().into() }, answer };
        let ended = |kind| Error::new(kind).caused_by("the worker that folds increments has ended");
        self.queue.send(waiting).await.map_err(|_| ended(ErrorKind::Refused))?;
        answered.await.unwrap_or_else(|_| Err(ended(ErrorKind::Unconfirmed)))
    }
}

impl FoldingWorker {
    /// Sends what waits, until the last front is dropped and every increment is answered.
    ///
    /// # Cancel safety
    /// Dropping the future ends the worker: callers that wait get an error that says their increment may have
    /// counted.
    pub async fn run(mut self) {
        let mut waiting = Vec::new();
        while self.queue.recv_many(&mut waiting, PLACES).await > 0 {
            // Increments that arrived together with the first one should share its call.
            yield_now().await;
            while waiting.len() < PLACES
                && let Ok(another) = self.queue.try_recv()
            {
                waiting.push(another);
            }
            let (additions, answers): (Vec<_>, Vec<_>) =
                waiting.drain(..).map(|Waiting { addition, answer }| (addition, answer)).unzip();
            let fold = Fold::of(additions);
            for (answer, waiting) in add_folded(&*self.store, &fold).await.into_iter().zip(answers) {
                // A caller that is gone needs no answer.
                drop(waiting.send(answer));
            }
        }
    }
}
