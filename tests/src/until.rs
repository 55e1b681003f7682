//! Bounded waiting for a condition.

use std::thread;
use std::time::{Duration, Instant};

use tokio::time;

/// Upper bound for everything that tests wait for. This should only be reached by a test that hangs, even on
/// a slow and busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Interval at which conditions are polled.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `condition` returns `true`. Tests should use this instead of sleeping.
///
/// # Panics
///
/// Panics with "timed out after 5s waiting until {what}" if this takes longer than `limit`.
pub async fn until(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            time::sleep(PAUSE).await;
        }
    };
    if time::timeout(limit, waiting).await.is_err() {
        panic!("waited {limit:?} in vain until {what}");
    }
}

/// Like [`until`], but blocks the thread.
pub(crate) fn block_until(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(settles(limit, condition), "waited {limit:?} in vain until {what}");
}

/// Returns whether the condition becomes true within `limit`. Used in destructors, which must not panic.
pub(crate) fn settles(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{block_until, until};

    #[tokio::test]
    async fn it_asks_again_until_the_answer_is_yes() {
        let mut asked = 0;
        until("the third time", super::LIMIT, async || {
            asked += 1;
            asked == 3
        })
        .await;
        assert_eq!(asked, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "waited 20ms in vain until pigs fly")]
    async fn it_says_what_never_came() {
        until("pigs fly", Duration::from_millis(20), async || false).await;
    }

    #[test]
    #[should_panic(expected = "waited 20ms in vain until pigs fly")]
    fn it_says_so_to_those_who_block() {
        block_until("pigs fly", Duration::from_millis(20), || false);
    }
}
