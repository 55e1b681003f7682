use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::error_message;
use crate::error::Error;

/// Interval for retrying scripts while transactions are used instead: permissions can be granted as well as
/// revoked, and a failover might lead to a server with different permissions.
const SCRIPT_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Tracks whether the server rejects scripts.
#[derive(Debug, Default)]
pub(crate) struct ScriptRejection(Mutex<Option<Rejected>>);

#[derive(Clone, Copy, Debug)]
struct Rejected {
    /// The time of the latest rejection.
    at: Instant,
    /// The time at which a script should be tried again.
    next: Instant,
}

impl ScriptRejection {
    /// Returns `true` if a script should be sent. If scripts are rejected, this returns `true` from time to
    /// time in order to retry.
    pub(crate) fn runs_scripts(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let Some(rejected) = &mut *state else { return true };
        if now < rejected.next {
            return false;
        }
        // Only this caller should retry.
        rejected.next = now + SCRIPT_RETRY_INTERVAL;
        true
    }

    /// Records the result of a script. Returns `true` if the error is known to mean that the server rejects all
    /// scripts.
    pub(crate) fn learn<T>(&self, reply: &Result<T, Error>, now: Instant) -> bool {
        match reply {
            Ok(_) => {
                // If the script was sent concurrently to the rejected script, it may have been sent to a
                // different node.
                if self.lock().is_some_and(|rejected| now >= rejected.at + SCRIPT_RETRY_INTERVAL) {
                    self.end();
                }
                false
            }
            Err(error) if rejects_scripts(error) => {
                self.start(error_message(error).unwrap_or_default(), now);
                true
            }
            Err(_) => false,
        }
    }

    /// Records that the server rejects scripts, with this error.
    pub(crate) fn start(&self, error: &str, now: Instant) {
        let before = self.lock().replace(Rejected { at: now, next: now + SCRIPT_RETRY_INTERVAL });
        if before.is_none() {
            tracing::warn!(error, "the server rejects scripts: using transactions instead, which are slower");
        }
    }

    /// Records that the server executes scripts again.
    pub(crate) fn end(&self) {
        let before = self.lock().take();
        if before.is_some() {
            tracing::info!("the server runs scripts again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Rejected>> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

/// Returns `true` if the server rejects all scripts. Errors for a command or key inside of a script can look
/// similar, but should not match.
fn rejects_scripts(error: &Error) -> bool {
    error_message(error)
        .and_then(rejected_command)
        .is_some_and(|command| ["eval", "evalsha"].iter().any(|script| command.eq_ignore_ascii_case(script)))
}

/// Returns the name of the command that is not permitted or does not exist, according to the server.
fn rejected_command(error: &str) -> Option<&str> {
    if error.starts_with("NOPERM") {
        // … run the 'eval' command
        let (before, _) = error.split_once("' command")?;
        return before.rsplit('\'').next();
    }
    // 'EVAL', with args …; the quotation marks vary between Redis versions.
    let rest = error.strip_prefix("ERR unknown command ")?;
    rest.split([',', ' ']).next().map(|name| name.trim_matches(['\'', '`', '"']))
}

#[cfg(test)]
mod tests {
    use fred::error::{Error as FredError, ErrorKind as FredKind};

    use super::*;
    use crate::redis::connection::explain;

    fn server_error(error: &'static str) -> Error {
        explain(FredError::new(FredKind::Unknown, error))
    }

    #[test]
    fn script_rejections_are_recognized_by_the_error_message() {
        for (error, expected) in [
            ("NOPERM this user has no permissions to run the 'eval' command or its subcommand", true),
            ("NOPERM this user has no permissions to run the 'evalsha' command", true),
            ("NOPERM User plain has no permissions to run the 'evalsha' command", true),
            ("ERR unknown command 'EVALSHA', with args beginning with: 'abc' '1' 'access:known:'", true),
            ("ERR unknown command `EVAL`, with args beginning with: `return 1`, `1`, ", true),
            ("NOPERM User eval has no permissions to run the 'set' command", false),
            ("NOPERM User x has no permissions to access the 'access:hll:medieval' key", false),
            ("NOPERM No permissions to access a key", false),
            ("ERR unknown command 'SADD', with args beginning with: 'access:set:eval' 'eval'", false),
            ("ERR The user executing the script can't run this command or subcommand script: 89d", false),
            ("NOSCRIPT No matching script. Please use EVAL.", false),
            ("OOM command not allowed when used memory > 'maxmemory'.", false),
        ] {
            assert_eq!(rejects_scripts(&server_error(error)), expected, "{error}");
        }
    }

    #[test]
    fn rejected_scripts_are_retried_once_a_minute() {
        let (rejection, start) = (ScriptRejection::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let rejected =
            || Err::<(), _>(server_error("NOPERM User x has no permissions to run the 'eval' command"));
        assert!(rejection.runs_scripts(at(0)));
        assert!(rejection.learn(&rejected(), at(0)));
        assert!(!rejection.learn(&Ok(()), at(1)), "it was on its way");
        assert!(!rejection.runs_scripts(at(59)));
        assert!(rejection.runs_scripts(at(60)) && !rejection.runs_scripts(at(60)), "one of them tries");
        assert!(rejection.learn(&rejected(), at(61)));
        assert!(!rejection.runs_scripts(at(120)));
        // Commands that did not reach the server don't change the state.
        assert!(!rejection.learn(&Err::<(), _>(server_error("")), at(120)));
        assert!(!rejection.runs_scripts(at(120)));
        assert!(rejection.runs_scripts(at(121)));
        assert!(!rejection.learn(&Ok(()), at(121)));
        assert!(rejection.runs_scripts(at(122)));
    }
}
