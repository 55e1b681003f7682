//! Retries while a store is unavailable.

use std::time::{Duration, Instant};

use counter_core::ErrorKind;

/// Maximum time to wait for an unavailable store.
const PATIENCE: Duration = Duration::from_secs(60);

/// Delay between attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Tracks how long a store has been unavailable.
#[derive(Debug, Default)]
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    /// Records a successful attempt.
    pub(crate) const fn renew(&mut self) {
        self.0 = None;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    ///
    /// Returns the error if the store has been unavailable for a minute, or if this is a different kind of
    /// error.
    pub(crate) async fn bear(&mut self, error: counter_core::Error) -> Result<(), counter_core::Error> {
        let since = *self.0.get_or_insert_with(Instant::now);
        if *error.kind() != ErrorKind::Unavailable || since.elapsed() >= PATIENCE {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}
