use std::time::Duration;

use tokio::time::Instant;

/// A time that is practically forever, and still gives a valid instant.
const YEARS_30: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Returns the instant after a duration, which may be [`Duration::MAX`].
pub(crate) fn later(from: Instant, by: Duration) -> Instant {
    from + by.min(YEARS_30)
}
