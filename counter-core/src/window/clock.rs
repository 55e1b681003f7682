//! The current time according to the store clock.
//!
//! All instances must agree on the current window, so this is decided by the store clock. The caller sends
//! the window that should be current, and the store only counts if this is right. Otherwise it returns the
//! store time, and we repeat the call with this time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::{Error, ErrorKind};
use crate::time::Timestamp;

/// A window can end during a call, and the next window can end during the retry.
const MAX_ATTEMPTS: usize = 4;

/// Offset of the store clock from the process clock in seconds, as learned from store responses.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreClock(Arc<AtomicI64>);

impl StoreClock {
    pub(super) fn now(&self) -> Timestamp {
        let skew = self.0.load(Ordering::Relaxed);
        let now = Timestamp::now();
        if skew < 0 { now.minus(skew.unsigned_abs()) } else { now.plus(skew.unsigned_abs()) }
    }

    /// Calls the store with the current time, and retries with the store time if the window is closed.
    pub(super) async fn call<T, F>(&self, mut attempt: impl FnMut(Timestamp) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut now = self.now();
        let mut reply = attempt(now).await;
        for _ in 1..MAX_ATTEMPTS {
            let Err(error) = &reply else { break };
            let ErrorKind::WindowClosed { now: store_time } = *error.kind() else { break };
            self.adopt(store_time);
            now = store_time;
            reply = attempt(now).await;
        }
        reply
    }

    /// Adopts the store time, unless the clocks agree to the second and only the window has ended.
    fn adopt(&self, store_time: Timestamp) {
        if store_time.as_unix().abs_diff(self.now().as_unix()) > 1 {
            let (store_time, process_time) =
                (store_time.as_unix().cast_signed(), Timestamp::now().as_unix().cast_signed());
            self.0.store(store_time - process_time, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a store with the given clock skew in the middle of a one-hour window.
    async fn attempts(clock: &StoreClock, skew: u64) -> (u32, bool) {
        let mut made = 0;
        let attempt = |at: Timestamp| {
            made += 1;
            let now = Timestamp::now().plus(skew);
            let closed = || Error::new(ErrorKind::WindowClosed { now });
            let is_in = at.as_unix().abs_diff(now.as_unix()) < 1800;
            std::future::ready(is_in.then_some(()).ok_or_else(closed))
        };
        let reply = clock.call(attempt).await;
        (made, reply.is_ok())
    }

    #[tokio::test]
    async fn the_store_clock_is_adopted_after_one_rejection() {
        let clock = StoreClock::default();
        for made in [2, 1, 1] {
            assert_eq!(attempts(&clock, 86_400).await, (made, true));
        }
    }

    #[tokio::test]
    async fn calls_give_up_if_the_window_is_always_closed() {
        let clock = StoreClock::default();
        let mut made = 0;
        let closed = |at: Timestamp| {
            made += 1;
            std::future::ready(Err::<(), _>(Error::new(ErrorKind::WindowClosed { now: at.plus(60) })))
        };
        assert!(clock.call(closed).await.is_err());
        assert_eq!(made, MAX_ATTEMPTS);
    }
}
