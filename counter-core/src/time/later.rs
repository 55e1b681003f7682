use std::time::Duration;

use tokio::time::Instant;

/// Long enough to be treated as forever, but doesn't overflow an instant.
const MAX_DURATION: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Adds a duration to an instant. The duration can be [`Duration::MAX`].
pub(crate) fn later(from: Instant, by: Duration) -> Instant {
    from + by.min(MAX_DURATION)
}
