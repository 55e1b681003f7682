use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::connection::{error_message, has_code, is_key_message};
use crate::error::{Error, ErrorKind};
use crate::time::backoff::Backoff;

/// The time from the first attempt after which an operation is not retried any more.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Error codes for commands that have not been executed, but that might succeed in a moment.
const TRANSIENT_CODES: [&str; 9] =
    ["LOADING", "BUSY", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "ASK", "MOVED"];

/// Retries an operation with exponential backoff if `may_repeat` returns `true` for the error, until the
/// timeout elapses.
pub(crate) async fn with_retries<T, F>(
    may_repeat: fn(&Error) -> bool,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + RETRY_TIMEOUT;
    let mut backoff = Backoff::new();
    loop {
        let reply = attempt().await;
        let next = Instant::now() + backoff.next();
        match reply {
            Err(error) if next < deadline && may_repeat(&error) => sleep_until(next).await,
            reply => return reply,
        }
    }
}

/// Returns `true` if the server reports that the command has not been executed. Used for calls that are not
/// idempotent.
pub(crate) fn was_not_executed(error: &Error) -> bool {
    TRANSIENT_CODES.iter().any(|code| has_code(error, code))
}

/// Error codes for the state of a server or connection, in addition to [`TRANSIENT_CODES`]. These say nothing
/// about what the user is permitted to do.
const STATE_CODES: [&str; 4] = ["OOM", "MISCONF", "NOAUTH", "UNBLOCKED"];

/// Returns `true` if a server refuses a command, whatever the words: providers and proxies have their own. This
/// does not include errors about the state of the server or the value of a key.
pub(crate) fn is_refusal(error: &Error) -> bool {
    *error.kind() == ErrorKind::Rejected
        && !was_not_executed(error)
        && !STATE_CODES.iter().any(|code| has_code(error, code))
        && !error_message(error).is_some_and(is_key_message)
}

/// Returns `true` if an error is transient. Used for calls that are idempotent.
pub(crate) fn is_transient(error: &Error) -> bool {
    *error.kind() == ErrorKind::Unavailable || was_not_executed(error)
}

#[cfg(test)]
mod tests {
    use fred::error::{Error as FredError, ErrorKind as FredKind};

    use super::*;
    use crate::redis::connection::explain;

    fn server_error(message: &'static str) -> Error {
        explain(FredError::new(FredKind::Unknown, message))
    }

    fn lost() -> Error {
        explain(FredError::new(FredKind::IO, "the connection was lost"))
    }

    /// Returns the number of attempts, and whether the call succeeds, if the initial two attempts fail.
    async fn attempts(may_repeat: fn(&Error) -> bool, failure: fn() -> Error) -> (u32, bool) {
        let mut made = 0;
        let attempt = || {
            made += 1;
            std::future::ready(if made > 2 { Ok(()) } else { Err(failure()) })
        };
        let reply = with_retries(may_repeat, attempt).await;
        (made, reply.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn ambiguous_failures_are_only_retried_for_idempotent_calls() {
        let loading = || server_error("LOADING Redis is loading the dataset in memory");
        let wrong = || server_error("WRONGTYPE Operation against a key holding the wrong kind of value");
        for (may_repeat, failure, expected) in [
            (was_not_executed as fn(&Error) -> bool, loading as fn() -> Error, (3, true)),
            (was_not_executed, lost, (1, false)),
            (was_not_executed, wrong, (1, false)),
            (is_transient, loading, (3, true)),
            (is_transient, lost, (3, true)),
            (is_transient, wrong, (1, false)),
        ] {
            assert_eq!(attempts(may_repeat, failure).await, expected, "{:?}", failure());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retries_stop_after_two_seconds() {
        let started = Instant::now();
        let reply: Result<(), _> = with_retries(is_transient, || std::future::ready(Err(lost()))).await;
        assert!(reply.is_err());
        assert!((RETRY_TIMEOUT / 4..RETRY_TIMEOUT).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
}
