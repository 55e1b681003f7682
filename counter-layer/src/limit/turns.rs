use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use counter_core::stores::{Shard, Shards};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Maximum number of concurrent calls per shard. Further requests wait in the process, where they may be
/// decided by the reply to another request with the same key.
const MAX_CALLS: usize = 64;

/// Maximum number of timeouts to wait if the shard decides other requests.
const MAX_TIMEOUTS: u32 = 4;

/// Number of checks within a timeout. If our process is slow to fire timers, it is also slow to handle
/// replies, so after a single long sleep we would give up on a reply that has already been received.
const CHECKS_PER_TIMEOUT: u32 = 5;

/// Limits the concurrent calls to the store, per shard, so that a failing shard won't delay other shards.
///
/// A shard is considered failed if it does not decide any request, but not because requests wait in the
/// queue.
#[derive(Debug)]
pub(super) struct Turns(Box<[ShardTurns]>);

#[derive(Debug)]
struct ShardTurns {
    free: Semaphore,
    /// Number of requests decided by the shard, not counting errors.
    decided: AtomicU64,
}

impl Turns {
    pub(super) fn new(shards: Shards) -> Self {
        Self(shards.iter().map(|_| ShardTurns::new()).collect())
    }

    /// Calls the shard when it is the turn of this request, unless `known` returns a decision by then.
    ///
    /// Returns `None` if the shard did not decide any request within the timeout, or after four timeouts.
    pub(super) async fn call<T, E>(
        &self,
        shard: Shard,
        timeout: Duration,
        known: impl Fn() -> Option<T>,
        call: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<T, E>> {
        let turns = &self.0[shard.index()];
        let decided = async {
            let _turn = turns.free.acquire().await;
            if let Some(known) = known() {
                return Ok(known);
            }
            let reply = call.await;
            turns.decided.fetch_add(reply.is_ok().into(), Ordering::Relaxed);
            reply
        };
        tokio::select! {
            biased;
            reply = decided => Some(reply),
            () = turns.give_up(timeout) => known().map(Ok),
        }
    }
}

impl ShardTurns {
    const fn new() -> Self {
        Self { free: Semaphore::const_new(MAX_CALLS), decided: AtomicU64::new(0) }
    }

    /// Completes when a request that arrives now should time out.
    async fn give_up(&self, timeout: Duration) {
        let (mut before, mut silent) = (self.decided.load(Ordering::Relaxed), 0);
        for _ in 0..MAX_TIMEOUTS * CHECKS_PER_TIMEOUT {
            sleep(timeout / CHECKS_PER_TIMEOUT).await;
            let decided = self.decided.load(Ordering::Relaxed);
            silent = if decided == before { silent + 1 } else { 0 };
            before = decided;
            if silent == CHECKS_PER_TIMEOUT {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);

    type Reply = Option<Result<(), ()>>;

    /// Makes this number of concurrent calls to the first shard, and returns the replies with the waiting
    /// time.
    async fn calls<F>(calls: usize, mut call: impl FnMut() -> F) -> Vec<(Reply, Duration)>
    where
        F: Future<Output = Result<(), ()>> + Send + 'static,
    {
        let (turns, started) = (Arc::new(Turns::new(Shards::ONE)), Instant::now());
        let mut requests = JoinSet::new();
        for _ in 0..calls {
            let (turns, call) = (Arc::clone(&turns), call());
            requests.spawn(async move {
                let reply = turns.call(Shard::default(), TIMEOUT, || None, call).await;
                (reply, started.elapsed())
            });
        }
        requests.join_all().await
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_while_the_shard_decides() {
        let decide = async || {
            sleep(TIMEOUT / 2).await;
            Ok(())
        };
        let replies = calls(7 * MAX_CALLS, decide).await;
        assert!(replies.iter().all(|(reply, _)| *reply == Some(Ok(()))));
        assert_eq!(replies.iter().map(|(_, wait)| *wait).max(), Some(TIMEOUT * 7 / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_waits_for_more_than_four_timeouts() {
        let decide = async || {
            sleep(TIMEOUT / 2).await;
            Ok(())
        };
        let replies = calls(20 * MAX_CALLS, decide).await;
        assert!(replies.iter().all(|(_, wait)| *wait <= MAX_TIMEOUTS * TIMEOUT));
        let decided = replies.iter().filter(|(reply, _)| reply.is_some()).count();
        assert!((7 * MAX_CALLS..=8 * MAX_CALLS).contains(&decided), "{decided}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timed_out_request_uses_a_known_decision() {
        let (turns, started) = (Turns::new(Shards::ONE), Instant::now());
        let known = || (started.elapsed() >= TIMEOUT).then_some(7);
        let reply = turns.call(Shard::default(), TIMEOUT, known, pending::<Result<_, ()>>()).await;
        assert_eq!(reply, Some(Ok(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_to_a_silent_shard_give_up_after_one_timeout() {
        for (_, wait) in calls(20 * MAX_CALLS, pending).await {
            assert_eq!(wait, TIMEOUT);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_only_fails_counts_as_silent() {
        let fail = async || {
            sleep(TIMEOUT * 3 / 4).await;
            Err(())
        };
        for (reply, wait) in calls(20 * MAX_CALLS, fail).await {
            assert!(reply.is_none_or(|reply| reply.is_err()) && wait <= TIMEOUT, "{wait:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_shard_does_not_delay_other_shards() {
        let shards = Shards::try_from(2).expect("a number of shards");
        let [silent, other] = shards.iter().collect::<Vec<_>>().try_into().expect("two shards");
        let (turns, started) = (Arc::new(Turns::new(shards)), Instant::now());
        let mut requests = JoinSet::new();
        for _ in 0..20 * MAX_CALLS {
            let turns = Arc::clone(&turns);
            requests.spawn(
                async move { turns.call(silent, TIMEOUT, || None, pending::<Result<(), ()>>()).await },
            );
        }
        while turns.0[silent.index()].free.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let decided = turns.call(other, TIMEOUT, || None, async { Ok::<_, ()>(()) }).await;
        assert_eq!((decided, started.elapsed()), (Some(Ok(())), Duration::ZERO));
        assert!(requests.join_all().await.iter().all(Option::is_none));
    }
}
