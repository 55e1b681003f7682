use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::connection::has_code;
use crate::error::{Error, ErrorKind};
use crate::time::backoff::Backoff;

/// New attempts are only started within this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Error codes for commands that have not been executed, but that might succeed in a moment.
const NOT_NOW: [&str; 9] =
    ["LOADING", "BUSY", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "ASK", "MOVED"];

/// Retries an operation with exponential backoff if `may_repeat` returns `true` for the error, until the
/// timeout elapses.
pub(crate) async fn retried<T, F>(
    may_repeat: fn(&Error) -> bool,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + PATIENCE;
    let mut backoff = Backoff::new();
    loop {
        let answer = attempt().await;
        let next = Instant::now() + backoff.next();
        match answer {
            Err(error) if next < deadline && may_repeat(&error) => sleep_until(next).await,
            answer => return answer,
        }
    }
}

/// Returns `true` if the server reports that the command has not been executed. Used for calls that are not
/// idempotent.
pub(crate) fn nothing_was_done(error: &Error) -> bool {
    NOT_NOW.iter().any(|word| has_code(error, word))
}

/// Returns `true` if an error is transient. Used for calls that are idempotent.
pub(crate) fn it_may_pass(error: &Error) -> bool {
    *error.kind() == ErrorKind::Unavailable || nothing_was_done(error)
}

#[cfg(test)]
mod tests {
    use fred::error::{Error as FredError, ErrorKind as FredKind};

    use super::*;
    use crate::redis::connection::explain;

    fn said(words: &'static str) -> Error {
        explain(FredError::new(FredKind::Unknown, words))
    }

    fn lost() -> Error {
        explain(FredError::new(FredKind::IO, "the connection broke"))
    }

    /// Returns the number of attempts, and whether the call succeeds, if the initial two attempts fail.
    async fn attempts(may_repeat: fn(&Error) -> bool, failure: fn() -> Error) -> (u32, bool) {
        let mut made = 0;
        let attempt = || {
            made += 1;
            std::future::ready(if made > 2 { Ok(()) } else { Err(failure()) })
        };
        let answer = retried(may_repeat, attempt).await;
        (made, answer.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_done_is_tried_again_and_what_may_have_been_done_only_where_it_does_not_matter() {
        let loading = || said("LOADING Redis is loading the dataset in memory");
        let wrong = || said("WRONGTYPE Operation against a key holding the wrong kind of value");
        for (may_repeat, failure, expected) in [
            (nothing_was_done as fn(&Error) -> bool, loading as fn() -> Error, (3, true)),
            (nothing_was_done, lost, (1, false)),
            (nothing_was_done, wrong, (1, false)),
            (it_may_pass, loading, (3, true)),
            (it_may_pass, lost, (3, true)),
            (it_may_pass, wrong, (1, false)),
        ] {
            assert_eq!(attempts(may_repeat, failure).await, expected, "{:?}", failure());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trying_again_ends_after_two_seconds() {
        let begun = Instant::now();
        let answer: Result<(), _> = retried(it_may_pass, || std::future::ready(Err(lost()))).await;
        assert!(answer.is_err());
        assert!((PATIENCE / 4..PATIENCE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }
}
