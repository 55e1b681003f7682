//! Shares store reads between listeners that follow the same counters.
//!
//! If the latest reading is more than a second old, the next listener starts a new one, and other listeners
//! wait on the same future. All of them poll this future, so it will make progress even if a listener stalls
//! or is dropped.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use counter_core::time::Retention;
use counter_core::visits::{Extent, Unreadable};
use counter_core::{CounterName, Error, Precision, Series, Stats, Timestamp};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

/// Interval between reads of the open buckets.
pub(super) const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between full reads, which find late hits and forgotten counters.
const READ_ALL_INTERVAL: Duration = Duration::from_secs(10);
/// How many seconds after its end we still treat a bucket as open. Late hits usually arrive within this time.
const OPEN_SECONDS: u64 = 60;

/// Feeds with at least one listener.
#[derive(Debug)]
pub(super) struct Feeds(Mutex<HashMap<Followed, Weak<Feed>>>);

/// The counters and the precision of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Followed {
    pub(super) counters: Arc<[CounterName]>,
    pub(super) precision: Precision,
}

/// Reads some counters at one precision.
pub(super) struct Feed {
    stats: Stats,
    followed: Followed,
    retention: Retention,
    latest: Mutex<Option<Latest>>,
}

/// The most recent reading, which may still be running.
struct Latest {
    started: Instant,
    reading: Shared<BoxFuture<'static, Result<Arc<Reading>, Arc<Error>>>>,
}

/// The samples of a feed at some point in time.
#[derive(Debug)]
pub(super) struct Reading {
    /// When the store replied.
    pub(super) done: Instant,
    /// The start of the oldest bucket.
    pub(super) oldest: Timestamp,
    /// The end of the current bucket.
    pub(super) end: Timestamp,
    /// When all buckets were read, in this or an earlier reading.
    pub(super) all_read: Instant,
    /// The start of the open buckets, which are always read.
    pub(super) open_from: Timestamp,
    all: Part,
    open: Part,
}

/// The samples of the counters, in the order of the feed.
type Part = Arc<Vec<Result<Series, Unreadable>>>;

impl Feeds {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Returns the feed of the counters at the precision of `retention`, or creates it.
    pub(super) fn feed(&self, stats: &Stats, counters: Vec<CounterName>, retention: Retention) -> Arc<Feed> {
        let followed = Followed { counters: counters.into(), precision: retention.precision };
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feeds.get(&followed).and_then(Weak::upgrade) {
            return feed;
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed =
            Feed { stats: stats.clone(), followed: followed.clone(), retention, latest: Mutex::default() };
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

    /// Returns a reading that is less than a second old, possibly started by a different listener.
    pub(super) async fn latest(&self) -> Result<Arc<Reading>, Arc<Error>> {
        let reading = self.start_or_join(Instant::now());
        reading.await
    }

    /// Returns the latest reading, or starts a new one if it is too old.
    fn start_or_join(&self, now: Instant) -> Shared<BoxFuture<'static, Result<Arc<Reading>, Arc<Error>>>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &*latest {
            Some(Latest { started, reading }) => match reading.peek() {
                Some(Ok(before)) if before.done + READ_INTERVAL <= now => Some(Arc::clone(before)),
                Some(Err(_)) if *started + READ_INTERVAL <= now => None,
                _ => return reading.clone(),
            },
            None => None,
        };
        // While a part is missing, and once when it is back, older buckets change, too.
        let all = before.filter(|before| now < before.all_read + READ_ALL_INTERVAL && !before.lacks_part());
        let read = read(self.stats.clone(), self.followed.clone(), self.retention, all);
        let reading = read.boxed().shared();
        *latest = Some(Latest { started: now, reading: reading.clone() });
        reading
    }
}

/// Reads the open buckets, or all buckets if `before` is `None`.
async fn read(
    stats: Stats,
    followed: Followed,
    retention: Retention,
    before: Option<Arc<Reading>>,
) -> Result<Arc<Reading>, Arc<Error>> {
    let Followed { counters, precision } = followed;
    let now = Timestamp::now();
    let (oldest, end) = (retention.oldest(now), precision.bucket(now).end());
    let open_from = precision.bucket(now.minus(OPEN_SECONDS)).start.max(oldest);
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
    /// Returns `true` if a part of all counts is missing, such as those of a site.
    fn lacks_part(&self) -> bool {
        let series = self.all.iter().chain(self.open.iter()).flatten();
        series.flat_map(|series| &series.unreadable).any(|unreadable| unreadable.extent == Extent::Part)
    }

    /// Returns the samples of the counter at this index: all buckets if `whole`, otherwise just the open
    /// buckets.
    pub(super) fn of(&self, index: usize, whole: bool) -> Result<Found<'_>, &Unreadable> {
        let nothing = Found { older: None, open: None, open_from: self.open_from };
        let Some(open) = self.open.get(index) else { return Ok(nothing) };
        let open = Some(open.as_ref()?);
        let older = match self.all.get(index).filter(|_| whole) {
            Some(all) => Some(all.as_ref()?),
            None => None,
        };
        Ok(Found { older, open, open_from: self.open_from })
    }
}

/// The samples of a counter. Open and older buckets may come from different readings.
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

    /// Returns the start times of unreadable buckets.
    pub(super) fn unknown(self) -> impl Iterator<Item = Timestamp> {
        self.parts().flat_map(|(series, range)| {
            let buckets =
                series.unreadable.iter().flat_map(|unreadable| unreadable.extent.buckets()).copied();
            buckets.filter(move |start| range.contains(start))
        })
    }

    /// Returns the unreadable part, if any.
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
