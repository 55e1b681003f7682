use std::fmt;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::log::unwind::tell;
use crate::visits::Counters;
use crate::{Error, ErrorKind};

/// A handle to the task that flushes and cleans: what [`Counters::spawn`] returns.
///
/// Call [`stop`](Self::stop) when the server has answered its last request. A handle that is dropped without
/// it ends the task, too, and the task says so in the log: it sends what was recorded until then, and hits
/// that are recorded later reach no store.
#[must_use = "dropping the handle ends the task; keep it, and call `stop` after the server has ended"]
pub struct Upkeep {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Counters {
    /// Spawns [`run`](Self::run) on the current Tokio runtime and returns the handle that ends it.
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
    /// Panics outside of a Tokio runtime, as [`tokio::spawn`] does.
    pub fn spawn(mut self) -> Upkeep {
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            if stopped.await.is_err() {
                tell(|| {
                    tracing::warn!(
                        "the handle of the counters was dropped without `stop`: later hits are not stored"
                    );
                });
            }
        };
        Upkeep { stop, task: tokio::spawn(async move { self.run(stopped).await }) }
    }
}

impl Upkeep {
    /// Flushes until nothing is pending, and ends the task.
    ///
    /// Stop whatever records hits first: shut down the server, then this.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unflushed`] when the store did not take the rest before the
    /// [shutdown timeout](crate::Builder::shutdown_timeout), and [`ErrorKind::Panicked`] when the task has
    /// panicked.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the task to its end.
    pub async fn stop(self) -> Result<(), Error> {
        // It fails when the task has ended, which the task itself tells.
        let _ = self.stop.send(());
        self.task.await.unwrap_or_else(|ended| Err(Error::new(ErrorKind::Panicked).caused_by(ended)))
    }
}

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upkeep").field("is_running", &!self.task.is_finished()).finish()
    }
}
