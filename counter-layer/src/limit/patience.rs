use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Questions that are with the store at a time. Those that came after them wait in the process, where the answer
/// to another may decide them.
const ASKING: usize = 64;

/// In so many steps a silence is measured: a process that has no time for its timers has none for the answers
/// either, and one long sleep would end before the answer that is there was looked at.
const STEPS: u32 = 5;

/// The wait of requests for the store: a bounded number at a time, and only while the store answers.
///
/// Waiting for a turn is no sign that the store fails; silence towards all requests is.
#[derive(Debug)]
pub(super) struct Patience {
    turns: Semaphore,
    /// The number of answers of the store.
    answers: AtomicU64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { turns: Semaphore::new(ASKING), answers: AtomicU64::new(0) }
    }
}

impl Patience {
    /// Asks when it is this request's turn, unless there is no need to any more: what is `known` by then, or when
    /// waiting has an end. `None` when no request was answered for so long.
    pub(super) async fn ask<T>(
        &self,
        timeout: Duration,
        known: impl Fn() -> Option<T>,
        ask: impl Future<Output = T>,
    ) -> Option<T> {
        let asking = async {
            let _turn = self.turns.acquire().await;
            if let Some(known) = known() {
                return known;
            }
            let answer = ask.await;
            self.answers.fetch_add(1, Ordering::Relaxed);
            answer
        };
        tokio::select! {
            biased;
            answer = asking => Some(answer),
            () = self.silence(timeout) => known(),
        }
    }

    /// Completes when no request was answered for so long.
    async fn silence(&self, timeout: Duration) {
        let (mut heard, mut silent) = (self.answers.load(Ordering::Relaxed), 0);
        while silent < STEPS {
            sleep(timeout / STEPS).await;
            let answers = self.answers.load(Ordering::Relaxed);
            silent = if answers == heard { silent + 1 } else { 0 };
            heard = answers;
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

    #[tokio::test(start_paused = true)]
    async fn waiting_for_others_is_not_silence_however_long_it_takes() {
        let patience = Arc::new(Patience::default());
        let mut requests = JoinSet::new();
        for _ in 0..20 * ASKING {
            let patience = Arc::clone(&patience);
            let ask = async { sleep(TIMEOUT / 2).await };
            requests.spawn(async move { patience.ask(TIMEOUT, || None, ask).await });
        }
        let begun = Instant::now();
        assert!(requests.join_all().await.iter().all(Option::is_some));
        assert!(begun.elapsed() >= 10 * TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn what_became_known_meanwhile_is_an_answer_too() {
        let patience = Patience::default();
        let begun = Instant::now();
        let known = || (begun.elapsed() >= TIMEOUT).then_some(7);
        assert_eq!(patience.ask(TIMEOUT, known, pending()).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn when_nobody_is_answered_all_stop_waiting_at_once() {
        let patience = Arc::new(Patience::default());
        let mut requests = JoinSet::new();
        for _ in 0..20 * ASKING {
            let patience = Arc::clone(&patience);
            requests.spawn(async move { patience.ask(TIMEOUT, || None, pending::<()>()).await });
        }
        let begun = Instant::now();
        assert!(requests.join_all().await.iter().all(Option::is_none));
        assert_eq!(begun.elapsed(), TIMEOUT);
    }
}
