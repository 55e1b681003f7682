use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::Store;
use super::identity::{self, GridMismatch};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::store_id::StoreId;
use crate::time::Grid;

/// A site of a [`Fleet`](crate::fleet::Fleet).
#[derive(Clone)]
pub struct Site {
    name: Arc<str>,
    pub(in crate::visits) store: Arc<dyn Store>,
    state: Arc<Mutex<State>>,
}

struct State {
    /// The grid of the fleet.
    grid: Option<Grid>,
    timeout: Duration,
    access: Access,
}

/// Whether a site can be read.
enum Access {
    /// It has not been read so far.
    Unknown,
    /// It belongs to the fleet. Its id is unknown before its first process writes, so it is checked again.
    Readable(Option<StoreId>),
    Failing(Failure),
}

#[derive(Clone)]
struct Failure {
    at: Instant,
    /// Time of the first failure.
    since: Instant,
    error: Error,
}

impl Site {
    pub(in crate::visits) fn new(name: &str, store: Arc<dyn Store>, timeout: Duration) -> Self {
        let state = State { grid: None, timeout, access: Access::Unknown };
        Self { name: name.into(), store, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the reason why the last read of this site failed, or `None` if it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.last_failure().map(|failure| reason(&failure.error))
    }

    /// Returns the time since the first of the latest failures, or `None` if the last read succeeded.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        self.last_failure().map(|failure| failure.since.elapsed())
    }

    /// Reads all sites at the same time. A site can't be read if an earlier site has the same store.
    pub(in crate::visits) async fn read_all<'a, T>(
        others: &'a [Self],
        sites: &'a [Self],
        read: impl Fn(&'a dyn Store) -> StoreFuture<'a, T>,
    ) -> Vec<Result<T, Error>> {
        let earlier = |place: usize| others.iter().chain(&sites[..place]);
        let replies = sites.iter().enumerate().map(|(place, site)| site.read(&read, earlier(place)));
        let replies = join_all(replies).await.into_iter().enumerate();
        let distinct = |(place, reply): (usize, Result<(Option<StoreId>, T), Error>)| {
            let (site, (id, reply)): (&Self, _) = (&sites[place], reply?);
            // If both sites were read for the first time, their ids were unknown before. A concurrent read may have forgotten
            // the id since then.
            site.check_distinct(id, earlier(place)).inspect_err(|error| site.fail(error))?;
            Ok(reply)
        };
        replies.map(distinct).collect()
    }

    /// Reads the site. If a read failed within the timeout, this fails immediately, so that the reads of a page wait only
    /// once.
    async fn read<'a, T>(
        &'a self,
        read: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, T>,
        earlier: impl Iterator<Item = &Self>,
    ) -> Result<(Option<StoreId>, T), Error> {
        let limit = self.state().timeout;
        let recent = self.last_failure().filter(|last| last.at.elapsed() < limit);
        if let Some(failure) = recent {
            return Err(failure.error);
        }
        let known = self.id();
        let reply = timeout(limit, async {
            let id = match known {
                Some(id) => Some(id),
                None => self.check(earlier).await.inspect_err(|error| self.fail(error))?,
            };
            Ok((id, read(&*self.store).await?))
        });
        match reply.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable).caused_by("timed out"))) {
            Ok((id, reply)) => {
                self.succeed(id);
                Ok((id, reply))
            }
            Err(error) => {
                // Another error only affects this read.
                if *error.kind() == ErrorKind::Unavailable {
                    self.fail(&error);
                }
                Err(error)
            }
        }
    }

    /// Checks whether the store fits the fleet, and returns its id.
    async fn check(&self, earlier: impl Iterator<Item = &Self>) -> Result<Option<StoreId>, Error> {
        let Some(record) = identity::peek(&*self.store).await? else { return Ok(None) };
        if let Some(mismatch) = self.state().grid.as_ref().and_then(|grid| record.mismatch(grid)) {
            return Err(Error::new(ErrorKind::Rejected).caused_by(mismatch));
        }
        self.check_distinct(Some(record.id), earlier)?;
        Ok(Some(record.id))
    }

    fn check_distinct<'a>(
        &self,
        id: Option<StoreId>,
        mut earlier: impl Iterator<Item = &'a Self>,
    ) -> Result<(), Error> {
        let other = earlier.find(|other| id.is_some() && other.id() == id);
        other.map_or(Ok(()), |other| {
            let reason = format!("the store of {} is that of {}", self.name, other.name);
            Err(Error::new(ErrorKind::Rejected).caused_by(reason))
        })
    }

    fn succeed(&self, id: Option<StoreId>) {
        let before = std::mem::replace(&mut self.state().access, Access::Readable(id));
        if matches!(before, Access::Failing(_)) {
            tracing::info!(site = self.name(), "a site can be read again");
        }
    }

    /// Records a failure. Reads within the timeout will fail with the same reason.
    fn fail(&self, error: &Error) {
        let (now, last) = (Instant::now(), self.last_failure());
        let since = last.as_ref().map_or(now, |last| last.since);
        self.state().access = Access::Failing(Failure { at: now, since, error: error.clone() });
        // A store that is back may turn out to be the wrong one.
        if last.is_none_or(|last| last.error.kind() != error.kind()) {
            tracing::warn!(site = self.name(), ?error, "failed to read a site");
        }
    }

    /// Returns the id of the store, if it is known.
    fn id(&self) -> Option<StoreId> {
        match self.state().access {
            Access::Readable(id) => id,
            Access::Unknown | Access::Failing(_) => None,
        }
    }

    /// Sets the grid of the fleet.
    pub(in crate::visits) fn attach(&self, grid: &Grid) {
        self.store.attach(grid);
        self.state().grid = Some(grid.clone());
    }

    pub(in crate::visits) fn set_timeout(&self, timeout: Duration) {
        self.state().timeout = timeout;
    }

    fn last_failure(&self) -> Option<Failure> {
        match &self.state().access {
            Access::Failing(failure) => Some(failure.clone()),
            Access::Unknown | Access::Readable(_) => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is never poisoned")
    }
}

/// Words in the errors of connections, and the reason to show. The log has the errors themselves, but pages must not contain
/// addresses.
const CAUSES: [(&[&str], &str); 6] = [
    (
        &["wrongpass", "noauth", "noperm", "password", "access denied"],
        "the server does not accept the user or the password",
    ),
    (&["refused"], "the connection was refused"),
    (&["timed out", "timeout", "deadline", "unresponsive"], "there was no answer in time"),
    (&["lookup", "resolve", "dns", "not known"], "the name of the server is unknown"),
    (&["tls", "certificate"], "the TLS connection failed"),
    (&["not connected", "pipe", "reset", "closed", "canceled", "eof"], "the connection was lost"),
];

/// Returns the cause of an error, e.g. a wrong password, or the error itself.
pub(in crate::visits) fn reason(error: &Error) -> String {
    let cause = std::error::Error::source(error);
    if cause.is_some_and(|cause| cause.is::<GridMismatch>()) {
        return "its buckets differ from those of the other sites; all sites need the same precisions and time zone".to_owned();
    }
    let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
    if *error.kind() != ErrorKind::Unavailable {
        return cause;
    }
    let lower = cause.to_lowercase();
    let known = CAUSES.iter().find(|(words, _)| words.iter().any(|word| lower.contains(word)));
    known.map_or_else(|| error.to_string(), |(_, reason)| (*reason).to_owned())
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failed_connection_is_in_plain_words() {
        for (kind, cause, expected) in [
            (
                ErrorKind::Unavailable,
                "IO Error: Os { code: 111, message: \"Connection refused\" }",
                "the connection was refused",
            ),
            (
                ErrorKind::Unavailable,
                "WRONGPASS invalid username-password pair",
                "the server does not accept the user or the password",
            ),
            (
                ErrorKind::Unavailable,
                "password authentication failed for user \"a\"",
                "the server does not accept the user or the password",
            ),
            (ErrorKind::Unavailable, "IO Error: Unresponsive connection.", "there was no answer in time"),
            (
                ErrorKind::Unavailable,
                "failed to lookup address information",
                "the name of the server is unknown",
            ),
            (ErrorKind::Unavailable, "invalid peer certificate: UnknownIssuer", "the TLS connection failed"),
            (ErrorKind::Unavailable, "Broken pipe (os error 32)", "the connection was lost"),
            (
                ErrorKind::Unavailable,
                "10.0.0.1 is odd",
                "the store is unavailable or did not respond in time",
            ),
            (ErrorKind::Rejected, "the stored grid differs", "the stored grid differs"),
        ] {
            assert_eq!(reason(&Error::new(kind).caused_by(cause)), expected, "{cause}");
        }
        let without_cause = Error::new(ErrorKind::Unavailable);
        assert_eq!(reason(&without_cause), without_cause.to_string());
    }
}
