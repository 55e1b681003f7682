//! Retries while a store is unavailable.

use std::error::Error;
use std::time::{Duration, Instant};

use counter_core::ErrorKind;

use crate::problem::{Problem, explain, is_denied};

/// Maximum time to wait for an unavailable store.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Delay between attempts.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Tracks how long a store has been unavailable.
#[derive(Debug)]
pub(crate) struct Retry {
    /// The option of the store.
    store: String,
    since: Option<Instant>,
}

impl Retry {
    /// Creates a state for an available store. `store` is the option of the store, for messages.
    pub(crate) fn new(store: &str) -> Self {
        Self { store: store.to_owned(), since: None }
    }

    /// Records a successful attempt.
    pub(crate) const fn reset(&mut self) {
        self.since = None;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    ///
    /// Returns the error if the store has been unavailable for a minute, if it denies access, or if this
    /// is a different kind of error.
    pub(crate) async fn wait(&mut self, error: counter_core::Error) -> Result<(), Box<dyn Error>> {
        let is_first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_over = since.elapsed() >= RETRY_TIMEOUT || is_denied(&error);
        if *error.kind() != ErrorKind::Unavailable || is_over {
            return Err(Problem::new(&self.store, error).into());
        }
        if is_first {
            tracing::warn!("{}; will retry for a minute", explain(&Problem::new(&self.store, error)));
        }
        tokio::time::sleep(RETRY_DELAY).await;
        Ok(())
    }
}
