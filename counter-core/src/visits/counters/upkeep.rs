use std::fmt;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Counters;
use crate::error::{Error, ErrorKind};
use crate::log::unwind::emit;

/// A handle to the task that flushes and cleans, returned by [`Counters::spawn`].
///
/// You should call [`stop`](Self::stop) when the server has finished all requests. If you drop the handle
/// instead, the task will also end, and log a warning: all hits recorded so far will be sent, but later hits
/// will not be stored.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let (recorder, stats) = (counters.recorder(), counters.stats());
/// let upkeep = counters.spawn();
///
/// recorder.record(recorder.counter("signups"), None); // by the server, until it has shut down
/// upkeep.stop().await?;
/// assert_eq!(stats.lifetimes(&["signups".parse()?]).await?, [1]);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle ends the task; keep it and call `stop` after the server shuts down"]
pub struct Upkeep {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Counters {
    /// Spawns [`run`](Self::run) on the current Tokio runtime, and returns a handle to stop it.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, stats) = (counters.recorder(), counters.stats());
    /// let upkeep = counters.spawn();
    ///
    /// recorder.record(recorder.counter("hits"), None);
    ///
    /// upkeep.stop().await?;
    /// assert_eq!(stats.ledger().hits.applied, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if called outside of a Tokio runtime, see [`tokio::spawn`].
    pub fn spawn(mut self) -> Upkeep {
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            if stopped.await.is_err() {
                emit(|| {
                    tracing::warn!(
                        "the upkeep handle was dropped without `stop`; later hits will not be stored"
                    );
                });
            }
        };
        Upkeep { stop, task: tokio::spawn(async move { self.run(stopped).await }) }
    }
}

impl Upkeep {
    /// Flushes the remaining hits, and ends the task.
    ///
    /// You should shut down the server first, so that no more hits are recorded.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unflushed`] if the store did not accept the remaining hits within the [shutdown
    /// timeout](crate::Builder::shutdown_timeout), or [`ErrorKind::Panicked`] if the task panicked.
    ///
    /// # Cancel safety
    /// If you drop the future, the task will continue until it is done.
    pub async fn stop(self) -> Result<(), Error> {
        // This fails if the task already ended, which will be reported by the task.
        let _ = self.stop.send(());
        self.task.await.unwrap_or_else(|ended| Err(Error::new(ErrorKind::Panicked).caused_by(ended)))
    }
}

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upkeep").field("is_running", &!self.task.is_finished()).finish()
    }
}
