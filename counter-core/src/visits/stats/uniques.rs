//! Unique visitors.

use std::borrow::Cow;
use std::ops::Range;

use super::{Stats, buckets, check};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::sketch::{STANDARD_ERROR, Sketch};
use crate::time::{Bucket, Kind, Precision, Precisions, Timestamp};
use crate::visits::store::{Query, Unreadable};
use crate::visits::tally::STAY;

/// An estimate of unique visitors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Uniques {
    /// The estimate.
    pub visitors: u64,
    /// The standard error, relative to the estimate. About two thirds of all estimates should be within this
    /// error.
    pub standard_error: f64,
    /// `true` if a visitor may count more than once, e.g. once per site of a [fleet](crate::fleet), so that the estimate is an
    /// upper bound.
    pub is_upper_bound: bool,
}

/// The people of the last five minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Now {
    /// The number of people.
    pub people: Uniques,
    /// Start of the minute five minutes ago, by the store clock: people who were seen since then are included.
    pub since: Timestamp,
}

impl Stats {
    /// Returns the number of people of the last five minutes, i.e. the visitors of any counter, on all instances and
    /// [sites](crate::fleet).
    ///
    /// Instances share this every two seconds, as a sketch for the site by the minute of the store clock. This is a single
    /// read of at most seven sketches, which a Redis server merges itself. Records of [sources](crate::source) are included if
    /// they are recent. If the store loses data or an instance exits without a final flush, people are missing for up to five
    /// minutes. Shortly after a new [salt epoch](Self::salt_epoch), a person may count twice, so this is an upper bound.
    ///
    /// ```
    /// use counter_core::visitor::VisitorKey;
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let recorder = counters.recorder();
    /// for (page, person) in [("/", b"one"), ("/about", b"two"), ("/", b"two")] {
    ///     recorder.record(recorder.counter(page), Some(VisitorKey::new([7; 16]).visitor(&[person])));
    /// }
    /// counters.flush().await?;
    /// assert_eq!(counters.stats().now().await?.people.visitors, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store can't be read, or a site of a fleet.
    pub async fn now(&self) -> Result<Now, Error> {
        let minute = Precision::MINUTE;
        let ahead = self.store.info().clock_skew.unwrap_or(0);
        let now = Timestamp::from_unix(Timestamp::now().as_unix().saturating_add_signed(-ahead));
        let since = minute.bucket(now.minus(STAY * 60)).start;
        // Minutes are rounded by the store clock.
        let start = |start| Bucket { precision: minute, start };
        let buckets = minute.starts(since..now.plus(61)).map(start).collect();
        let counter = CounterName::new(CounterName::NOW).expect("a valid name");
        let counts = self.store.visitor_counts(&[counter], &[buckets]).await?;
        let visitors = counts.into_iter().flatten().next().expect("a counter and a union")?;
        let mut people = self.estimate(visitors);
        // People have new ids in a new salt epoch.
        people.is_upper_bound |= self.salt_epoch.bucket(since) != self.salt_epoch.bucket(now);
        Ok(Now { people, since })
    }

    /// Returns the total number of unique visitors of these counters, in the buckets that start in `range`.
    ///
    /// # Errors
    /// Returns an error if a counter has no visitors in this [precision](Self::visitor_precisions_of), if the range is empty, if counters times
    /// buckets exceed 1,000, or if the store or the key of any of these buckets can't be read.
    pub async fn uniques(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Uniques, Error> {
        let kept = self.visitor_precisions_of(counters)?;
        check(&kept, precision, &range, counters.len() as u64, Self::MAX_SKETCHES)?;
        let (mut union, mut range) = (Sketch::new(), range);
        while range.start < range.end {
            let query = Query { counters, precision, range: range.clone(), retained: u32::MAX };
            let read = self.store.values(Kind::Visitors, query).await?;
            range.start = read.next(range.start);
            for reading in read.counters {
                if let Some(unreadable) = reading.unreadable {
                    return Err(unreadable.into());
                }
                reading
                    .values
                    .iter()
                    .filter_map(|(_, value)| value.visitors())
                    .for_each(|one| union.merge(one));
            }
        }
        Ok(self.estimate(union.estimate()))
    }

    /// Returns the number of unique visitors for each counter, in the given order, in the buckets that start
    /// in `range`.
    ///
    /// This takes a single round trip to the shards, and doesn't need to transfer sketches if the store can
    /// count. If the visitors of a counter can't be read, the other counters are unaffected.
    ///
    /// ```
    /// use counter_core::visitor::VisitorKey;
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let recorder = counters.recorder();
    /// let (home, about) = (recorder.counter("/"), recorder.counter("/about"));
    /// for person in [b"one", b"two"] {
    ///     recorder.record(home, Some(VisitorKey::new([7; 16]).visitor(&[person])));
    /// }
    /// recorder.record(about, None);
    /// counters.flush().await?;
    ///
    /// let (hour, now) = (Precision::HOUR, Timestamp::now());
    /// let names = ["/".parse()?, "/about".parse()?];
    /// let uniques = counters.stats().uniques_by_counter(&names, hour, now.minus(3600)..now.plus(3600)).await?;
    /// let visitors: Vec<_> = uniques.into_iter().flatten().map(|uniques| uniques.visitors).collect();
    /// assert_eq!(visitors, [2, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if a counter has no visitors in this [precision](Self::visitor_precisions_of), if the range is empty, if counters times
    /// buckets exceed 10,000, or if the store can't be read.
    pub async fn uniques_by_counter(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Result<Uniques, Unreadable>>, Error> {
        let uniques = self.uniques_by_range(counters, precision, &[range]).await?;
        Ok(uniques.into_iter().flatten().collect())
    }

    /// Returns the number of unique visitors per counter and range. For example, a chart needs the visitors
    /// in each bucket, and also over all buckets.
    ///
    /// Like [`uniques_by_counter`](Self::uniques_by_counter), this takes a single round trip to the shards.
    /// An entry that can't be read only affects the ranges of this counter that include the entry.
    ///
    /// ```
    /// use counter_core::visitor::VisitorKey;
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, hour) = (counters.recorder(), Precision::HOUR);
    /// let this = hour.bucket(Timestamp::now()).start;
    /// let visitor = |person: &[u8]| VisitorKey::new([7; 16]).visitor(&[person]);
    /// # let at = |person, at| recorder.record_at(recorder.counter("/"), visitor(person), at, std::num::NonZeroU32::MIN);
    /// # at(b"one", this.minus(3600));
    /// # at(b"two", this.minus(3600));
    /// # at(b"two", this);
    /// // There are two visitors in the previous hour, and one of them returns in this hour.
    /// counters.flush().await?;
    ///
    /// let ranges = [this.minus(3600)..this, this..this.plus(1), this.minus(3600)..this.plus(1)];
    /// let uniques = counters.stats().uniques_by_range(&["/".parse()?], hour, &ranges).await?;
    /// let visitors: Vec<_> = uniques.concat().into_iter().flatten().map(|uniques| uniques.visitors).collect();
    /// assert_eq!(visitors, [2, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if a counter has no visitors in this [precision](Self::visitor_precisions_of), if a range is empty, if counters times
    /// the buckets of all ranges exceed 10,000, or if the store can't be read.
    pub async fn uniques_by_range(
        &self,
        counters: &[CounterName],
        precision: Precision,
        ranges: &[Range<Timestamp>],
    ) -> Result<Vec<Vec<Result<Uniques, Unreadable>>>, Error> {
        let (kept, mut requested) = (self.visitor_precisions_of(counters)?, 0_u64);
        for range in ranges {
            check(&kept, precision, range, 0, 0)?;
            requested = buckets(precision, range).saturating_add(requested);
        }
        Self::check_sketches(requested, counters)?;
        let start = |start| Bucket { precision, start };
        let unions: Vec<_> =
            ranges.iter().map(|range| precision.starts(range.clone()).map(start).collect()).collect();
        self.uniques_by_union(counters, &unions).await
    }

    /// Returns the number of unique visitors per counter and union of buckets, which may have different precisions and may
    /// overlap. For example, a day with 25 hours is the union of two days with different offsets.
    ///
    /// This takes a single round trip to the shards, like [`uniques_by_range`](Self::uniques_by_range).
    ///
    /// # Errors
    /// Returns an error if a counter has no visitors in a [precision](Self::visitor_precisions_of), if counters times the buckets of all unions exceed
    /// 10,000, or if the store can't be read.
    pub async fn uniques_by_union(
        &self,
        counters: &[CounterName],
        unions: &[Vec<Bucket>],
    ) -> Result<Vec<Vec<Result<Uniques, Unreadable>>>, Error> {
        let kept = self.visitor_precisions_of(counters)?;
        for Bucket { precision, start } in unions.iter().flatten() {
            check(&kept, *precision, &(*start..start.plus(1)), 0, 0)?;
        }
        Self::check_sketches(unions.iter().map(|buckets| buckets.len() as u64).sum(), counters)?;
        let counts = self.store.visitor_counts(counters, unions).await?;
        let to_uniques = |counts: Vec<Result<u64, _>>| {
            counts.into_iter().map(|count| count.map(|count| self.estimate(count))).collect()
        };
        Ok(counts.into_iter().map(to_uniques).collect())
    }

    /// Returns the precisions in which all of these counters have visitors: label values only have them by
    /// [days](crate::time::Precisions::of_label_values).
    ///
    /// # Errors
    /// Fails if one of these is a counter of [views](CounterName::views) or [pairs](CounterName::pair), which never have
    /// visitors.
    pub fn visitor_precisions_of(&self, counters: &[CounterName]) -> Result<Cow<'_, Precisions>, Error> {
        if let Some(counter) = counters.iter().find(|name| name.viewed().is_some() || name.pair().is_some()) {
            return Err(Error::new(ErrorKind::NoVisitors { counter: counter.to_string() }));
        }
        let visitors = &self.tally.grid.visitors;
        Ok(match counters.iter().any(|counter| counter.label().is_some()) {
            true => Cow::Owned(visitors.of_label_values()),
            false => Cow::Borrowed(visitors),
        })
    }

    fn estimate(&self, visitors: u64) -> Uniques {
        let is_upper_bound = self.store.info().counts_visitors_per_site;
        Uniques { visitors, standard_error: STANDARD_ERROR, is_upper_bound }
    }

    fn check_sketches(buckets: u64, counters: &[CounterName]) -> Result<(), Error> {
        let (requested, max) = (buckets.saturating_mul(counters.len() as u64), Self::MAX_COUNTED_SKETCHES);
        match requested <= max {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::TooManyBuckets { requested, max })),
        }
    }
}
