use std::num::NonZeroU32;

use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

use super::clock::StoreClock;
use super::counters::{Settings, add_folded};
use super::fold::Fold;
use std::sync::Arc;

use crate::window::{Addition, Dimensions, WindowKey, WindowStore};
use crate::{Error, ErrorKind, Timestamp};

/// Where many at once count in windows: those that wait at the same time share one call.
///
/// It comes from [`WindowCounters::folding`](crate::window::WindowCounters::folding) with the
/// [`FoldingWorker`] that makes the calls, one after the other. While one is under way, increments gather,
/// up to 16,384 of them; who comes then waits for a place first. Each is answered what it would have been
/// answered alone.
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

/// Sends what waits at a [`FoldingFront`]; nothing is counted unless it [runs](Self::run).
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

/// How many wait at most, and how many share a call.
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
    /// Counts in the window of now by the store's clock: see [`increment_at`](Self::increment_at).
    ///
    /// # Errors
    /// As those of [`increment_at`](Self::increment_at).
    ///
    /// # Cancel safety
    /// A call that is dropped may still count.
    pub async fn increment(&self, dimensions: &Dimensions, n: NonZeroU32) -> Result<u64, Error> {
        self.clock.call(|now| self.increment_in(self.settings.now(dimensions, now), n)).await
    }

    /// Counts in the window of an instant, and answers what the counter counts then.
    ///
    /// # Errors
    /// As those of [`WindowCounters::increment_at`](crate::window::WindowCounters::increment_at), the same for all
    /// that shared the call; [`ErrorKind::Unconfirmed`] also when the worker was dropped in the middle, and
    /// [`ErrorKind::Refused`] when it had ended before.
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
    /// Sends what waits, until the last front is dropped and all are answered.
    ///
    /// # Cancel safety
    /// Dropping the future ends the worker: who waits is told that his increment may have counted.
    pub async fn run(mut self) {
        let mut waiting = Vec::new();
        while self.queue.recv_many(&mut waiting, PLACES).await > 0 {
            // Those that came together with the first are to be in the same call.
            yield_now().await;
            while waiting.len() < PLACES
                && let Ok(another) = self.queue.try_recv()
            {
                waiting.push(another);
            }
            let (additions, answers): (Vec<_>, Vec<_>) =
                waiting.drain(..).map(|Waiting { addition, answer }| (addition, answer)).unzip();
            let fold = Fold::of(additions);
            for (answer, waiting) in add_folded(&self.store, &fold).await.into_iter().zip(answers) {
                // Who went away does not want to know.
                drop(waiting.send(answer));
            }
        }
    }
}
