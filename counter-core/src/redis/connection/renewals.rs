use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Limits how often a connection is replaced because of server replies. The pause increases because the next
/// connection may well lead to the same server, which will send the same replies.
#[derive(Debug, Default)]
pub(in crate::redis) struct Renewals(Mutex<Option<Renewal>>);

#[derive(Clone, Copy, Debug)]
struct Renewal {
    at: Instant,
    /// The delay until the next renewal is allowed.
    pause: Duration,
}

const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

impl Renewals {
    /// Returns `true` if the connection should be replaced now.
    pub(in crate::redis) fn allow(&self, now: Instant) -> bool {
        let mut last = self.0.lock().expect("the lock is never poisoned");
        let pause = match *last {
            None => MIN_PAUSE,
            Some(Renewal { at, pause }) => match now.saturating_duration_since(at) {
                elapsed if elapsed < pause => return false,
                elapsed if elapsed < 4 * pause => (2 * pause).min(MAX_PAUSE),
                _ => MIN_PAUSE,
            },
        };
        *last = Some(Renewal { at: now, pause });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds at which a connection is replaced if this is tried ten times per second.
    fn replaced(renewals: &Renewals, start: Instant, seconds: u64) -> Vec<u64> {
        let steps = (0..10 * seconds).map(|tenth| Duration::from_millis(100 * tenth));
        steps.filter(|step| renewals.allow(start + *step)).map(|step| step.as_secs()).collect()
    }

    #[test]
    fn connections_to_a_broken_server_are_replaced_with_increasing_delays() {
        let (renewals, start) = (Renewals::default(), Instant::now());
        assert_eq!(replaced(&renewals, start, 120), [0, 1, 3, 7, 15, 31, 61, 91]);
        let later = start + Duration::from_secs(600);
        assert_eq!(replaced(&renewals, later, 4), [0, 1, 3]);
    }
}
