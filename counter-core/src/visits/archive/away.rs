//! Reads of the far store, which may be away, and what the near store can answer without it.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::binding::Binding;
use super::{Archive, State};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::log::unwind::emit;
use crate::time::{Kind, Precision, Timestamp};
use crate::visits::source::LATENESS;
use crate::visits::store::{Extent, Reading, Unreadable};

/// A failure of the far store.
#[derive(Debug)]
pub(super) struct Failure {
    /// Time of the next attempt.
    retry_at: Instant,
    /// Time between the latest attempts.
    delay: Duration,
    reason: String,
}

/// Buckets that the near store has without the far store.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearBuckets {
    precision: Precision,
    /// The oldest bucket of the far store.
    first: Timestamp,
    /// The near store has all buckets from here.
    oldest: Timestamp,
    /// Buckets from here have not been copied for the last time, so that the near store has all hits of a bucket, if it has
    /// the bucket at all.
    settled: Timestamp,
}

/// The key of [`Unreadable`] entries for the far store.
const KEY: &str = "archive";
/// If the far store fails, we don't read it for this long. The delay is doubled with each failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// If the far store has replied during this time, we read it without checking first.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which the health reports that the far store refused a read.
const REFUSAL_HINT_TTL: Duration = Duration::from_secs(60);
/// Time to wait for a check. A read can take longer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

impl Archive {
    /// Reads the far store. After a failure, this fails immediately for up to 10 s. Then a single caller tries again, for
    /// up to 2 s.
    pub(super) async fn read_far<T>(&self, read: StoreFuture<'_, T>) -> Result<T, Unreadable> {
        self.check_far().await?;
        self.noted(read.await).map_err(|error| unavailable(&error))
    }

    /// Reads both stores. Only fails if the near store fails.
    pub(super) async fn both<T>(
        &self,
        near: StoreFuture<'_, T>,
        far: StoreFuture<'_, T>,
    ) -> Result<(T, Result<T, Unreadable>), Error> {
        let (near, far) = tokio::join!(near, self.read_far(far));
        Ok((near?, far))
    }

    async fn check_far(&self) -> Result<(), Unreadable> {
        {
            let state = &mut *self.state();
            let has_replied = state.far_replied_at.is_some_and(|at| at.elapsed() < CHECK_INTERVAL);
            match &mut state.far_failure {
                Some(failure) if Instant::now() < failure.retry_at => return Err(failure.unreadable()),
                // Others do not wait for this attempt.
                Some(failure) => failure.postpone(),
                None if has_replied && matches!(state.binding, Some(Binding::Own)) => return Ok(()),
                None => {}
            }
        }
        let time = timeout(CHECK_TIMEOUT, self.far.time()).await;
        let timed_out = |_| Err(Error::new(ErrorKind::Unavailable).caused_by("timed out"));
        self.noted(time.unwrap_or_else(timed_out)).map_err(|error| unavailable(&error))?;
        let checked = self.check_once().await;
        if let Err(error) = &checked
            && *error.kind() == ErrorKind::Rejected
            && !self.is_foreign()
        {
            self.note_refusal(error);
        }
        checked.map_err(|error| unavailable(&error))
    }

    /// Notes whether the far store could be read.
    fn noted<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        match &read {
            Err(error) if *error.kind() == ErrorKind::Unavailable => self.note_failure(error),
            Err(error) if *error.kind() == ErrorKind::Rejected => {
                self.note_reply();
                self.note_refusal(error);
            }
            // Other errors only affect this read.
            _ => self.note_reply(),
        }
        read
    }

    /// Notes that the far store refused a read, e.g. because of a missing permission. Other reads may be
    /// permitted, so they are still tried.
    fn note_refusal(&self, error: &Error) {
        let before = self.state().far_refused_at.replace(Instant::now());
        if before.is_none_or(|at| at.elapsed() >= REFUSAL_HINT_TTL) {
            emit(|| tracing::warn!(?error, "the archive refuses a read: older buckets are unknown"));
        }
    }

    fn note_failure(&self, error: &Error) {
        let mut state = self.state();
        state.far_replied_at = None;
        if state.far_failure.is_some() {
            return;
        }
        state.far_failure = Some(Failure {
            retry_at: Instant::now() + FIRST_RETRY_DELAY,
            delay: FIRST_RETRY_DELAY,
            reason: error.to_string(),
        });
        drop(state);
        emit(|| tracing::warn!(%error, "cannot read the archive: older buckets are unknown"));
    }

    /// Notes that the far store replies.
    pub(super) fn note_reply(&self) {
        let mut state = self.state();
        state.far_replied_at = Some(Instant::now());
        if state.far_failure.take().is_some() {
            drop(state);
            emit(|| tracing::info!("the archive can be read again"));
        }
    }

    /// Returns the buckets that can be read without the far store, according to the later of two clocks.
    pub(super) fn near_buckets(&self, kind: Kind, precision: Precision) -> NearBuckets {
        let all =
            NearBuckets { precision, first: Timestamp::MIN, oldest: Timestamp::MIN, settled: Timestamp::MIN };
        let Some(far) = self.far_retention(kind, precision) else { return all };
        let behind = self.near.info().clock_skew.map_or(0, |skew| skew.min(0).unsigned_abs());
        let (now, state) = (Timestamp::now().plus(behind), self.state());
        let retained = state.near.as_ref().and_then(|near| match kind {
            Kind::Counts => near.counts.retention(precision),
            Kind::Visitors => near.visitors.retention(precision),
            Kind::Distributions => near.distributions.as_ref()?.retention(precision),
        });
        // A bucket that has just left retention is still there, because it is only removed after the final copy.
        let oldest = retained.map_or(now, |retained| retained.oldest(now.minus(LATENESS)));
        let settled = state.settled.get(&precision).filter(|_| kind == Kind::Counts);
        let settled = settled.map_or(oldest, |settled| oldest.min(*settled));
        NearBuckets { precision, first: far.oldest(now), oldest, settled }
    }
}

impl State {
    /// Returns `true` if the far store can't be read, or refuses some reads.
    pub(super) fn is_far_unreadable(&self) -> bool {
        let is_refused = self.far_refused_at.is_some_and(|at| at.elapsed() < REFUSAL_HINT_TTL);
        is_refused || self.far_failure.is_some()
    }
}

impl Failure {
    /// Doubles the time until the next attempt.
    fn postpone(&mut self) {
        self.delay = (2 * self.delay).min(MAX_RETRY_DELAY);
        self.retry_at = Instant::now() + self.delay;
    }

    fn unreadable(&self) -> Unreadable {
        Unreadable::unavailable(KEY, self.reason.clone())
    }
}

impl NearBuckets {
    /// Returns `true` if the near store has all buckets from this start.
    pub(super) fn contain(self, start: Timestamp) -> bool {
        self.oldest <= start
    }

    /// Only retains values that are known without the far store. Other buckets of the range become unknown.
    pub(super) fn retain_known(self, near: &mut Reading, far: &Unreadable, range: &Range<Timestamp>) {
        near.values.retain(|(start, _)| *start < self.first || self.settled <= *start);
        let known: HashSet<_> = near.values.iter().map(|(start, _)| *start).collect();
        let unknown: Vec<_> = self.missing(range).filter(|start| !known.contains(start)).collect();
        if !unknown.is_empty() {
            let unknown = far.clone().with_extent(Extent::Buckets(unknown));
            near.unreadable = Unreadable::merge(near.unreadable.take(), Some(unknown));
        }
    }

    /// Decides what is unknown because of unreadable entries in the far store: nothing that the near store has.
    pub(super) fn resolve(self, near: &mut Reading, far: &mut Reading, range: &Range<Timestamp>) {
        match far.unreadable.take() {
            Some(unreadable) if unreadable.extent == Extent::All => {
                self.retain_known(near, &unreadable, range);
            }
            Some(mut unreadable) => {
                let is_unknown = unreadable.extent.is_unknown();
                if let Extent::Buckets(starts) = &mut unreadable.extent {
                    starts.retain(|start| !self.contain(*start));
                }
                far.unreadable = (unreadable.extent.is_unknown() == is_unknown).then_some(unreadable);
            }
            None => {}
        }
    }

    /// Returns the buckets of a range that the near store might not have.
    fn missing(self, range: &Range<Timestamp>) -> impl Iterator<Item = Timestamp> {
        self.precision.starts(range.start.max(self.first)..range.end.min(self.oldest))
    }
}

fn unavailable(error: &Error) -> Unreadable {
    Unreadable::unavailable(KEY, error.to_string())
}
