//! The time for which a store that is away is waited for.

use std::time::{Duration, Instant};

use counter_core::ErrorKind;

/// The time for which a store that is away is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a store has been away.
#[derive(Debug, Default)]
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    /// Notes that the store answers.
    pub(crate) const fn renew(&mut self) {
        self.0 = None;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// When the store has been away for a minute, or when it is not away but refuses.
    pub(crate) async fn bear(&mut self, error: counter_core::Error) -> Result<(), counter_core::Error> {
        let since = *self.0.get_or_insert_with(Instant::now);
        if *error.kind() != ErrorKind::Unavailable || since.elapsed() >= PATIENCE {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}
