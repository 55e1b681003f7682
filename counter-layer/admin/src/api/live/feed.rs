//! One reading of the store for all listeners that follow the same counters.
//!
//! The first of them that asks after a second has gone by begins it, and all that ask wait for the same
//! future. Each of them drives it on: one that is dropped, or is not polled any more, holds up none.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use counter_core::time::Retention;
use counter_core::visits::Unreadable;
use counter_core::{CounterName, Error, Precision, Series, Stats, Timestamp};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

/// Between two readings of the buckets that change as a rule.
pub(super) const READ: Duration = Duration::from_secs(1);
/// Between two readings of all that is kept, where hits may arrive late or a counter be forgotten.
const READ_ALL: Duration = Duration::from_secs(10);
/// The seconds after its end in which a bucket still changes as a rule.
const OPEN: u64 = 60;

/// The feeds that have listeners.
#[derive(Debug)]
pub(super) struct Feeds(Mutex<HashMap<Followed, Weak<Feed>>>);

/// The counters and the precision that listeners follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Followed {
    pub(super) counters: Arc<[CounterName]>,
    pub(super) precision: Precision,
}

/// The readings of some counters at one precision.
pub(super) struct Feed {
    stats: Stats,
    followed: Followed,
    kept: Retention,
    latest: Mutex<Option<Latest>>,
}

/// A reading that is made or was made.
struct Latest {
    begun: Instant,
    reading: Shared<BoxFuture<'static, Result<Arc<Reading>, Arc<Error>>>>,
}

/// The samples of the counters of a feed at one time.
#[derive(Debug)]
pub(super) struct Reading {
    /// The time at which the store had answered.
    pub(super) done: Instant,
    /// The start of the first bucket that is followed.
    pub(super) oldest: Timestamp,
    /// The end of the current bucket, which is the last one that was read.
    pub(super) end: Timestamp,
    /// The time at which all that is followed was read, perhaps by a reading before this one.
    pub(super) all_read: Instant,
    /// The start of the first bucket that changes as a rule, and that was read just now.
    pub(super) open_from: Timestamp,
    all: Part,
    open: Part,
}

/// The samples of each counter.
type Part = Arc<Vec<Result<Series, Unreadable>>>;

impl Feeds {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// The feed of these counters, with as many buckets of each as are kept here.
    pub(super) fn feed(&self, stats: &Stats, counters: Vec<CounterName>, kept: Retention) -> Arc<Feed> {
        let followed = Followed { counters: counters.into(), precision: kept.precision };
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feeds.get(&followed).and_then(Weak::upgrade) {
            return feed;
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed = Feed { stats: stats.clone(), followed: followed.clone(), kept, latest: Mutex::default() };
        let feed = Arc::new(feed);
        feeds.insert(followed, Arc::downgrade(&feed));
        feed
    }
}

impl Feed {
    pub(super) fn counters(&self) -> &[CounterName] {
        &self.followed.counters
    }

    pub(super) fn precision(&self) -> Precision {
        self.followed.precision
    }

    /// The latest reading, less than a second old, whichever listener began it.
    pub(super) async fn latest(&self) -> Result<Arc<Reading>, Arc<Error>> {
        let reading = self.begun(Instant::now());
        reading.await
    }

    /// The reading of this moment, which may have just begun.
    fn begun(&self, now: Instant) -> Shared<BoxFuture<'static, Result<Arc<Reading>, Arc<Error>>>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &*latest {
            Some(Latest { begun, reading }) => match reading.peek() {
                Some(Ok(before)) if before.done + READ <= now => Some(Arc::clone(before)),
                Some(Err(_)) if *begun + READ <= now => None,
                _ => return reading.clone(),
            },
            None => None,
        };
        let all = before.filter(|before| now < before.all_read + READ_ALL);
        let read = read(self.stats.clone(), self.followed.clone(), self.kept, all);
        let reading = read.boxed().shared();
        *latest = Some(Latest { begun: now, reading: reading.clone() });
        reading
    }
}

/// Reads what changes as a rule, or all where what was read of that is not there or too old.
async fn read(
    stats: Stats,
    followed: Followed,
    kept: Retention,
    before: Option<Arc<Reading>>,
) -> Result<Arc<Reading>, Arc<Error>> {
    let Followed { counters, precision } = followed;
    let now = Timestamp::now();
    let (oldest, end) = (kept.oldest(now), precision.bucket(now).end());
    let open_from = precision.bucket(now.minus(OPEN)).start.max(oldest);
    let from = if before.is_some() { open_from } else { oldest };
    let open: Part = Arc::new(stats.series_many(&counters, precision, from..end).await.map_err(Arc::new)?);
    let done = Instant::now();
    let (all_read, all) = match before {
        Some(before) => (before.all_read, Arc::clone(&before.all)),
        None => (done, Arc::clone(&open)),
    };
    Ok(Arc::new(Reading { done, oldest, end, all_read, open_from, all, open }))
}

impl Reading {
    /// The samples of a counter from one of these starts on, or the reason why there are none.
    pub(super) fn of(&self, place: usize, whole: bool) -> Result<Found<'_>, &Unreadable> {
        let nothing = Found { older: None, open: None, open_from: self.open_from };
        let Some(open) = self.open.get(place) else { return Ok(nothing) };
        let open = Some(open.as_ref()?);
        let older = match self.all.get(place).filter(|_| whole) {
            Some(all) => Some(all.as_ref()?),
            None => None,
        };
        Ok(Found { older, open, open_from: self.open_from })
    }
}

/// The samples of one counter: the open buckets from one reading, and those before from another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    older: Option<&'a Series>,
    open: Option<&'a Series>,
    open_from: Timestamp,
}

impl<'a> Found<'a> {
    pub(super) fn samples(self) -> impl Iterator<Item = (Timestamp, u64)> {
        self.parts().flat_map(|(series, range)| {
            let samples = series.samples.iter().map(|sample| (sample.start, sample.count));
            samples.filter(move |(start, _)| range.contains(start))
        })
    }

    /// The starts of buckets that cannot be read.
    pub(super) fn unknown(self) -> impl Iterator<Item = Timestamp> {
        self.parts().flat_map(|(series, range)| {
            let buckets = series.unreadable.iter().flat_map(|unreadable| &unreadable.buckets).copied();
            buckets.filter(move |start| range.contains(start))
        })
    }

    /// The part of it that cannot be read.
    pub(super) fn unreadable(self) -> Option<&'a Unreadable> {
        self.parts().find_map(|(series, _)| series.unreadable.as_ref())
    }

    fn parts(self) -> impl Iterator<Item = (&'a Series, Range<Timestamp>)> {
        let before = self.older.map(|series| (series, Timestamp::MIN..self.open_from));
        before.into_iter().chain(self.open.map(|series| (series, self.open_from..Timestamp::MAX)))
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("followed", &self.followed).finish_non_exhaustive()
    }
}
