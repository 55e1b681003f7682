//! Background loops, running a pass in regular intervals until shutdown.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::Error;
use crate::family::future::{Answer, BoxFuture};
use crate::log::unwind::{caught, tell};

/// Runs a background loop until `shutdown` completes.
pub async fn until(shutdown: impl Future<Output = ()>, background: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    tokio::select! {
        biased;
        () = &mut shutdown => {}
        () = background => {}
    }
}

/// The passes of a background loop. Logs a message when passes start to fail, and when they succeed again.
#[derive(Debug)]
pub struct Passes {
    what: &'static str,
    failing: bool,
}

impl Passes {
    /// Creates the passes. The name is used in log messages.
    pub const fn of(what: &'static str) -> Self {
        Self { what, failing: false }
    }

    /// Runs passes forever. This always sleeps for `interval` before a pass, because the store may still be
    /// connecting at startup.
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

    /// Runs a single pass. Returns `None` if it fails or panics.
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
