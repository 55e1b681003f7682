//! Retries while a store is unavailable.

use std::time::{Duration, Instant};

use counter_core::ErrorKind;

/// Maximum time to wait for an unavailable store.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Delay between attempts.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Tracks how long a store has been unavailable.
#[derive(Debug, Default)]
pub(crate) struct Retry(Option<Instant>);

impl Retry {
    /// Records a successful attempt.
    pub(crate) const fn reset(&mut self) {
        self.0 = None;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    ///
    /// Returns the error if the store has been unavailable for a minute, or if this is a different kind of
    /// error.
    pub(crate) async fn wait(&mut self, error: counter_core::Error) -> Result<(), counter_core::Error> {
        let since = *self.0.get_or_insert_with(Instant::now);
        if *error.kind() != ErrorKind::Unavailable || since.elapsed() >= RETRY_TIMEOUT {
            return Err(error);
        }
        tokio::time::sleep(RETRY_DELAY).await;
        Ok(())
    }
}
