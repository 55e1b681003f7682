//! Bounded waiting for a condition.

use std::thread;
use std::time::Duration;

use tokio::time;

use crate::patience::{POLL_INTERVAL, Patience};

/// Upper bound for everything that tests wait for. This should only be reached by a test that hangs: on a slow or
/// busy machine, the functions here wait longer.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `condition` returns `true`. Tests should use this instead of sleeping.
///
/// # Panics
///
/// Panics with "timed out after 5s waiting until {what}" if this takes longer than `limit`.
pub async fn until(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            time::sleep(POLL_INTERVAL).await;
        }
    };
    assert!(within(limit, waiting).await.is_some(), "timed out after {limit:?} waiting until {what}");
}

/// Waits for a future, or returns `None` after the limit. On a slow or busy machine, this waits longer than
/// `tokio::time::timeout`.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let patience = Patience::new(limit);
    tokio::select! {
        output = future => Some(output),
        () = patience.ends() => None,
    }
}

/// Like [`until`], but blocks the thread.
pub(crate) fn block_until(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(becomes_true(limit, condition), "timed out after {limit:?} waiting until {what}");
}

/// Returns whether the condition becomes true within `limit`. Used in destructors, which must not panic.
pub(crate) fn becomes_true(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let patience = Patience::new(limit);
    loop {
        if condition() {
            return true;
        }
        if patience.is_over() {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{block_until, until};

    #[tokio::test]
    async fn until_polls_until_the_condition_is_true() {
        let mut polls = 0;
        until("the third time", super::LIMIT, async || {
            polls += 1;
            polls == 3
        })
        .await;
        assert_eq!(polls, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "timed out after 20ms waiting until pigs fly")]
    async fn until_panics_with_the_description_after_the_limit() {
        until("pigs fly", Duration::from_millis(20), async || false).await;
    }

    #[test]
    #[should_panic(expected = "timed out after 20ms waiting until pigs fly")]
    fn block_until_panics_with_the_description_after_the_limit() {
        block_until("pigs fly", Duration::from_millis(20), || false);
    }
}
