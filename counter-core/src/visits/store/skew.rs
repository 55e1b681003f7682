use std::sync::Mutex;

use crate::time::Timestamp;

/// How far the clock of this process is ahead of the server clock, in seconds, when last measured.
#[derive(Debug, Default)]
pub(crate) struct Skew(Mutex<Option<i64>>);

impl Skew {
    /// Compares the server clock in a response to our clock before and after the call.
    pub(crate) fn measure(&self, sent: Timestamp, server: Timestamp, received: Timestamp) {
        *self.0.lock().expect("the lock is never poisoned") = Some(skew(sent, server, received));
    }

    pub(crate) fn seconds(&self) -> Option<i64> {
        *self.0.lock().expect("the lock is never poisoned")
    }
}

/// Returns the smallest skew consistent with the times, in seconds, because the response can be slow.
fn skew(sent: Timestamp, server: Timestamp, received: Timestamp) -> i64 {
    let seconds = |at: Timestamp| i64::try_from(at.as_unix()).unwrap_or(i64::MAX);
    let (ahead, behind) = (seconds(sent) - seconds(server), seconds(received) - seconds(server));
    ahead.max(0) + behind.min(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_response_is_not_skew() {
        for (sent, server, received, expected) in
            [(10, 10, 10, 0), (10, 12, 15, 0), (10, 7, 15, 3), (10, 20, 15, -5), (10, 10, 900, 0)]
        {
            let [sent, server, received] = [sent, server, received].map(Timestamp::from_unix);
            assert_eq!(skew(sent, server, received), expected);
        }
    }
}
