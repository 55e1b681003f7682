//! Background loops: a pass at every interval, until shutdown.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::Error;
use crate::family::future::{Answer, BoxFuture};
use crate::log::unwind::{caught, tell};

/// Polls a background loop until `shutdown` completes, and then drops it.
pub async fn until(shutdown: impl Future<Output = ()>, background: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    tokio::select! {
        biased;
        () = &mut shutdown => {}
        () = background => {}
    }
}

/// The passes of one loop. It logs when failures start and when they end.
#[derive(Debug)]
pub struct Passes {
    what: &'static str,
    failing: bool,
}

impl Passes {
    /// Creates the passes of a loop that the log calls `what`.
    pub const fn of(what: &'static str) -> Self {
        Self { what, failing: false }
    }

    /// Runs a pass for ever, after a pause of `interval` each: at the start a store may still be connecting.
    pub fn repeat<'a, S: Send>(
        mut self,
        interval: Duration,
        state: &'a mut S,
        pass: impl Fn(&mut S) -> Answer<'_, ()> + Send + 'a,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                sleep(interval).await;
                self.make(pass(state)).await;
            }
        })
    }

    /// Runs one pass; returns its result, or `None` if it failed or panicked.
    pub async fn make<T>(&mut self, pass: impl Future<Output = Result<T, Error>> + Send) -> Option<T> {
        let Self { what, failing } = self;
        match caught(pass).await {
            Ok(made) => {
                if std::mem::replace(failing, false) {
                    tell(|| tracing::info!("{what} works again"));
                }
                Some(made)
            }
            Err(error) => {
                if !std::mem::replace(failing, true) {
                    tell(|| tracing::warn!(?error, "{what} failed; the next pass tries again"));
                }
                None
            }
        }
    }
}
