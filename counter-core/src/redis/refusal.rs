use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::answer_of;
use crate::error::Error;

/// Interval for retrying scripts while transactions are used instead: permissions can be granted as well as
/// revoked, and a failover might lead to a server with different permissions.
const PERIOD: Duration = Duration::from_secs(60);

/// Tracks whether the server rejects scripts.
#[derive(Debug, Default)]
pub(crate) struct Refusal(Mutex<Option<Refused>>);

#[derive(Clone, Copy, Debug)]
struct Refused {
    /// The time of the latest rejection.
    at: Instant,
    /// The time at which a script should be tried again.
    next: Instant,
}

impl Refusal {
    /// Returns `true` if a script should be sent. If scripts are rejected, this returns `true` from time to
    /// time in order to retry.
    pub(crate) fn runs_scripts(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let Some(refused) = &mut *state else { return true };
        if now < refused.next {
            return false;
        }
        // Only this caller should retry.
        refused.next = now + PERIOD;
        true
    }

    /// Records the result of a script. Returns `true` if the server rejects all scripts.
    pub(crate) fn learn<T>(&self, answer: &Result<T, Error>, now: Instant) -> bool {
        match answer {
            Ok(_) => {
                // If the script was sent concurrently to the rejected script, it may have been sent to a
                // different node.
                if self.lock().is_some_and(|refused| now >= refused.at + PERIOD) {
                    self.end();
                }
                false
            }
            Err(error) if are_refused(error) => {
                self.begin(answer_of(error).unwrap_or_default(), now);
                true
            }
            Err(_) => false,
        }
    }

    fn begin(&self, words: &str, now: Instant) {
        let before = self.lock().replace(Refused { at: now, next: now + PERIOD });
        if before.is_none() {
            tracing::warn!(words, "the server refuses scripts: transactions replace them, at a higher cost");
        }
    }

    /// Records that the server executes scripts again.
    pub(crate) fn end(&self) {
        let before = self.lock().take();
        if before.is_some() {
            tracing::info!("the server runs scripts again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Refused>> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

/// Returns `true` if the server rejects all scripts. Errors for a command or key inside of a script can look
/// similar, but should not match.
fn are_refused(error: &Error) -> bool {
    answer_of(error)
        .and_then(refused_command)
        .is_some_and(|command| ["eval", "evalsha"].iter().any(|script| command.eq_ignore_ascii_case(script)))
}

/// Returns the name of the command that is not permitted or does not exist, according to the server.
fn refused_command(words: &str) -> Option<&str> {
    if words.starts_with("NOPERM") {
        // … run the 'eval' command
        let (before, _) = words.split_once("' command")?;
        return before.rsplit('\'').next();
    }
    // 'EVAL', with args …; the quotation marks vary between Redis versions.
    let rest = words.strip_prefix("ERR unknown command ")?;
    rest.split([',', ' ']).next().map(|name| name.trim_matches(['\'', '`', '"']))
}

#[cfg(test)]
mod tests {
    use fred::error::{Error as FredError, ErrorKind as FredKind};

    use super::*;
    use crate::redis::connection::explain;

    fn said(words: &'static str) -> Error {
        explain(FredError::new(FredKind::Unknown, words))
    }

    #[test]
    fn only_that_scripts_are_refused_is_a_refusal_of_scripts() {
        for (words, expected) in [
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
            assert_eq!(are_refused(&said(words)), expected, "{words}");
        }
    }

    #[test]
    fn scripts_that_are_refused_are_tried_once_a_minute_until_one_runs() {
        let (refusal, start) = (Refusal::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let refused = || Err::<(), _>(said("NOPERM User x has no permissions to run the 'eval' command"));
        assert!(refusal.runs_scripts(at(0)));
        assert!(refusal.learn(&refused(), at(0)));
        assert!(!refusal.learn(&Ok(()), at(1)), "it was on its way");
        assert!(!refusal.runs_scripts(at(59)));
        assert!(refusal.runs_scripts(at(60)) && !refusal.runs_scripts(at(60)), "one of them tries");
        assert!(refusal.learn(&refused(), at(61)));
        assert!(!refusal.runs_scripts(at(120)));
        // Commands that did not reach the server don't change the state.
        assert!(!refusal.learn(&Err::<(), _>(said("")), at(120)));
        assert!(!refusal.runs_scripts(at(120)));
        assert!(refusal.runs_scripts(at(121)));
        assert!(!refusal.learn(&Ok(()), at(121)));
        assert!(refusal.runs_scripts(at(122)));
    }
}
