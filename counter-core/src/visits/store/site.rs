use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Store;
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;

/// A site of a [`Fleet`](crate::fleet::Fleet).
#[derive(Clone)]
pub struct Site {
    name: Arc<str>,
    pub(in crate::visits) store: Arc<dyn Store>,
    failure: Arc<Mutex<Option<Failure>>>,
}

struct Failure {
    at: Instant,
    /// Time of the first failure.
    since: Instant,
    reason: String,
}

impl Site {
    pub(in crate::visits) fn new(name: &str, store: Arc<dyn Store>) -> Self {
        Self { name: name.into(), store, failure: Arc::default() }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the reason why the last read of this site failed, or `None` if it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.last_failure().as_ref().map(|failure| failure.reason.clone())
    }

    /// Returns the time since the first of the latest failures, or `None` if the last read succeeded.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        self.last_failure().as_ref().map(|failure| failure.since.elapsed())
    }

    /// Reads the site. If a read failed less than `limit` ago, this fails immediately, so that the reads of a page wait
    /// only once.
    pub(in crate::visits) async fn read<'a, T>(
        &'a self,
        read: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, T>,
        limit: Duration,
    ) -> Result<T, Error> {
        let recent =
            self.last_failure().as_ref().filter(|last| last.at.elapsed() < limit).map(Failure::error);
        if let Some(error) = recent {
            return Err(error);
        }
        let reply = timeout(limit, read(&*self.store)).await;
        let reply = reply.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable).caused_by("timed out")));
        if reply.as_ref().is_err_and(|error| *error.kind() != ErrorKind::Unavailable) {
            // This only affects this read.
            return reply;
        }
        let error = reply.as_ref().err();
        let was_readable = {
            let (mut last, now) = (self.last_failure(), Instant::now());
            let since = last.as_ref().map_or(now, |last| last.since);
            let failure = error.map(|error| Failure { at: now, since, reason: reason(error) });
            std::mem::replace(&mut *last, failure).is_none()
        };
        match error {
            Some(error) if was_readable => {
                tracing::warn!(site = self.name(), %error, "failed to read a site");
            }
            None if !was_readable => tracing::info!(site = self.name(), "a site can be read again"),
            _ => {}
        }
        reply
    }

    fn last_failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().expect("the lock is never poisoned")
    }
}

/// Returns the cause of an error, e.g. a wrong password, or the error itself.
pub(in crate::visits) fn reason(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl Failure {
    fn error(&self) -> Error {
        Error::new(ErrorKind::Unavailable).caused_by(self.reason.clone())
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
