use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use counter_core::stores::{Shard, Shards};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// The number of calls that one shard has to answer at a time. Further requests wait in the process, where the answer to
/// another request with the same key may decide them.
const MAX_CALLS: usize = 64;

/// The number of timeouts that a request waits if its shard decides other requests meanwhile.
const MAX_TIMEOUTS: u32 = 4;

/// The number of sleeps in a timeout. A process that is late with its timers is late with answers too, and after one long
/// sleep it would give up before it looks at the answer that has arrived.
const STEPS: u32 = 5;

/// The turns of requests to call the store, separate for each shard, so that a shard that fails does not delay the others.
///
/// A request that waits for its turn is not a sign that the shard fails; a shard that decides no request is.
#[derive(Debug)]
pub(super) struct Turns(Box<[ShardTurns]>);

#[derive(Debug)]
struct ShardTurns {
    free: Semaphore,
    /// The number of requests that the shard has decided. Errors decide nothing.
    decided: AtomicU64,
}

impl Turns {
    pub(super) fn new(shards: Shards) -> Self {
        Self(shards.iter().map(|_| ShardTurns::new()).collect())
    }

    /// Calls the shard when it is the request's turn, unless the request is `known` to be decided by then.
    ///
    /// Returns `None` after a timeout in which the shard decided no request, and after four in any case.
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
            let answer = call.await;
            turns.decided.fetch_add(answer.is_ok().into(), Ordering::Relaxed);
            answer
        };
        tokio::select! {
            biased;
            answer = decided => Some(answer),
            () = turns.give_up(timeout) => known().map(Ok),
        }
    }
}

impl ShardTurns {
    const fn new() -> Self {
        Self { free: Semaphore::const_new(MAX_CALLS), decided: AtomicU64::new(0) }
    }

    /// Completes when a request that arrives now has waited for long enough.
    async fn give_up(&self, timeout: Duration) {
        let (mut before, mut silent) = (self.decided.load(Ordering::Relaxed), 0);
        for _ in 0..MAX_TIMEOUTS * STEPS {
            sleep(timeout / STEPS).await;
            let decided = self.decided.load(Ordering::Relaxed);
            silent = if decided == before { silent + 1 } else { 0 };
            before = decided;
            if silent == STEPS {
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

    type Answer = Option<Result<(), ()>>;

    /// Makes this many calls of the first shard at the same time, and returns each answer with the wait for it.
    async fn calls<F>(calls: usize, mut call: impl FnMut() -> F) -> Vec<(Answer, Duration)>
    where
        F: Future<Output = Result<(), ()>> + Send + 'static,
    {
        let (turns, begun) = (Arc::new(Turns::new(Shards::ONE)), Instant::now());
        let mut requests = JoinSet::new();
        for _ in 0..calls {
            let (turns, call) = (Arc::clone(&turns), call());
            requests.spawn(async move {
                let answer = turns.call(Shard::default(), TIMEOUT, || None, call).await;
                (answer, begun.elapsed())
            });
        }
        requests.join_all().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_its_turn_while_the_shard_decides_others() {
        let decide = async || {
            sleep(TIMEOUT / 2).await;
            Ok(())
        };
        let answers = calls(7 * MAX_CALLS, decide).await;
        assert!(answers.iter().all(|(answer, _)| *answer == Some(Ok(()))));
        assert_eq!(answers.iter().map(|(_, wait)| *wait).max(), Some(TIMEOUT * 7 / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_waits_for_more_than_four_timeouts() {
        let decide = async || {
            sleep(TIMEOUT / 2).await;
            Ok(())
        };
        let answers = calls(20 * MAX_CALLS, decide).await;
        assert!(answers.iter().all(|(_, wait)| *wait <= MAX_TIMEOUTS * TIMEOUT));
        let decided = answers.iter().filter(|(answer, _)| answer.is_some()).count();
        assert!((7 * MAX_CALLS..=8 * MAX_CALLS).contains(&decided), "{decided}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_known_to_be_decided_gives_up_with_the_decision() {
        let (turns, begun) = (Turns::new(Shards::ONE), Instant::now());
        let known = || (begun.elapsed() >= TIMEOUT).then_some(7);
        let answer = turns.call(Shard::default(), TIMEOUT, known, pending::<Result<_, ()>>()).await;
        assert_eq!(answer, Some(Ok(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn all_requests_to_a_silent_shard_give_up_after_a_timeout() {
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
        for (answer, wait) in calls(20 * MAX_CALLS, fail).await {
            assert!(answer.is_none_or(|answer| answer.is_err()) && wait <= TIMEOUT, "{wait:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_shard_does_not_delay_the_others() {
        let shards = Shards::try_from(2).expect("a number of shards");
        let [silent, other] = shards.iter().collect::<Vec<_>>().try_into().expect("two shards");
        let (turns, begun) = (Arc::new(Turns::new(shards)), Instant::now());
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
        assert_eq!((decided, begun.elapsed()), (Some(Ok(())), Duration::ZERO));
        assert!(requests.join_all().await.iter().all(Option::is_none));
    }
}
