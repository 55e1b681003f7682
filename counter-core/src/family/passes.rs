//! Background loops, running a pass in regular intervals until shutdown.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::Error;
use crate::family::future::{BoxFuture, StoreFuture};
use crate::log::unwind::{catch_panic, emit};

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
    name: &'static str,
    failing: bool,
}

impl Passes {
    /// Creates the passes. The name is used in log messages.
    pub const fn of(name: &'static str) -> Self {
        Self { name, failing: false }
    }

    /// Runs passes forever. This always sleeps for `interval` before a pass, because the store may still be
    /// connecting at startup.
    pub fn repeat<'a, S: Send>(
        mut self,
        interval: Duration,
        state: &'a mut S,
        pass: impl Fn(&mut S) -> StoreFuture<'_, ()> + Send + 'a,
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
        let Self { name, failing } = self;
        match catch_panic(pass).await {
            Ok(made) => {
                if std::mem::replace(failing, false) {
                    emit(|| tracing::info!("{name} succeeded again"));
                }
                Some(made)
            }
            Err(error) => {
                if !std::mem::replace(failing, true) {
                    emit(|| tracing::warn!(?error, "{name} failed; the next pass will retry"));
                }
                None
            }
        }
    }
}
