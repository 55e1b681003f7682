//! Visits in a SQL database. A batch is a single transaction, which also checks and updates the fence.

mod fence;
mod names;
mod additions;
mod raised;
mod bins;
mod apply;
mod salt;
mod clean;
#[cfg(feature = "archive")]
mod archive;
mod forget;
mod read;

use std::ops::Range;
use std::sync::Arc;

use super::batch::{ApplyOutcome, Batch};
use super::read::Read;
use super::reading::{BinReading, CountedReading, KnownReading, Reading, Unreadable};
use super::skew::Skew;
use super::witness::Witness;
use super::write::{Cleaned, Write};
use crate::document::DocumentStore;
use crate::document::sql::SqlDocuments;
use crate::error::{Error, ErrorKind};
use crate::family::future::Answer;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::sql::{Database, Failure};
use crate::time::{Bucket, Grid, Precision, Precisions, Timestamp};
use crate::visits::ledger::Hint;

/// Maximum number of samples that a batch changes. This allows for about 700 counts, to keep the number of
/// transactions in a flush low. After an outage, every sample could be in a different bucket, and thus need
/// its own statements.
const BATCH: usize = 10_000;

/// The visits in a database.
#[derive(Debug)]
pub(crate) struct SqlVisits {
    database: Arc<Database>,
    skew: Skew,
    documents: SqlDocuments,
}

impl SqlVisits {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        let documents = SqlDocuments::new(Arc::clone(&database));
        Self { database, skew: Skew::default(), documents }
    }
}

impl Write for SqlVisits {
    fn batch_samples(&self) -> usize {
        BATCH
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ApplyOutcome> {
        Box::pin(apply::apply(self, batch))
    }

    fn witness<'a>(&'a self, _: Shard, writer: WriterId) -> Answer<'a, Option<Witness>> {
        Box::pin(async move { fence::witness(self, writer).await.map(Some) })
    }

    fn clean<'a>(&'a self, _: Shard, now: Timestamp, kept: &'a Precisions) -> Answer<'a, Cleaned> {
        Box::pin(clean::clean(self, now, kept))
    }

    /// Also removes idle writers and forgotten counters, since this is not done by the server.
    fn adopt<'a>(&'a self, _: Shard, _: Option<String>, _: &'a Precisions) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            fence::forget_silent(self).await?;
            forget::forget_forgotten(self).await?;
            forget::forget_values(self).await?;
            Ok(None)
        })
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> Answer<'a, ()> {
        Box::pin(forget::forget(self, counter, grid, now))
    }

    fn salt<'a>(&'a self, epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> Answer<'a, [u8; 16]> {
        Box::pin(salt::salt(self, epoch, candidate, expiry))
    }
}

impl Read for SqlVisits {
    fn connections(&self) -> u64 {
        self.database.connections()
    }

    fn kind(&self) -> String {
        self.database.dialect().name.to_owned()
    }

    fn documents(&self) -> Option<&dyn DocumentStore> {
        Some(&self.documents)
    }

    fn clock_skew(&self) -> Option<i64> {
        self.skew.seconds()
    }

    fn hints(&self) -> Vec<Hint> {
        let hints = [
            (self.database.was_replaced(), Hint::STORE_REPLACED),
            (self.database.is_clock_ahead(), Hint::CLOCK_JUMPED),
        ];
        hints.into_iter().filter(|(holds, _)| *holds).map(|(_, hint)| hint).collect()
    }

    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        _: u32,
    ) -> Answer<'a, Vec<Result<Reading, Unreadable>>> {
        Box::pin(read::samples(self, counters, precision, range))
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> Answer<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(read::lifetimes(self, counters))
    }

    fn visitors<'a>(&'a self, counters: &'a [CounterName], buckets: &'a [Bucket]) -> Answer<'a, Sketch> {
        Box::pin(read::visitors(self, counters, buckets))
    }

    fn sketches<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> Answer<'a, Vec<Vec<Result<Sketch, Unreadable>>>> {
        Box::pin(read::sketches(self, counters, buckets))
    }

    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        ranges: &'a [Range<Timestamp>],
    ) -> Answer<'a, Vec<Vec<Result<u64, Unreadable>>>> {
        Box::pin(read::visitor_counts(self, counters, precision, ranges))
    }

    fn bins<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Answer<'a, Vec<BinReading>> {
        Box::pin(bins::read(self, counters, precision, range))
    }

    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> Answer<'a, KnownReading> {
        Box::pin(read::known(self, precisions, from, limit, Timestamp::MIN))
    }

    fn known_since<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
        since: Timestamp,
    ) -> Answer<'a, KnownReading> {
        Box::pin(read::known(self, precisions, from, limit, since))
    }

    fn counted<'a>(&'a self, _: Shard, cursor: Option<String>) -> Answer<'a, CountedReading> {
        Box::pin(read::counted(self, cursor))
    }

    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> Answer<'a, Vec<Result<bool, Unreadable>>> {
        Box::pin(read::contains(self, counters, precisions))
    }
}

/// Encodes a precision as its width plus 2^32 times the offset.
fn width(precision: Precision) -> i64 {
    // For an offset of more than 68 years, this is negative, but still unique.
    (u64::from(precision.offset()) << 32 | u64::from(precision.as_seconds())).cast_signed()
}

/// Decodes a precision, or returns `None` if the number is invalid.
fn precision(width: i64) -> Option<Precision> {
    let [seconds, offset] = [0, 32].map(|bits| u32::try_from(width.cast_unsigned() >> bits & 0xffff_ffff));
    let (seconds, offset) = (seconds.ok()?, offset.ok()?);
    let begun = Precision::try_from(seconds).ok()?.beginning_at(Timestamp::from_unix(offset.into()));
    (begun.offset() == offset).then_some(begun)
}

fn unix(at: Timestamp) -> i64 {
    i64::try_from(at.as_unix()).expect("the year 9999 is not beyond an i64")
}

fn at(unix: i64) -> Timestamp {
    Timestamp::from_unix(u64::try_from(unix).unwrap_or(0))
}

fn malformed(key: impl Into<String>) -> Failure {
    Failure::Malformed(Error::new(ErrorKind::Malformed { key: key.into() }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_precision_is_found_again_in_its_number(seconds in 1..=u32::MAX, at in any::<u32>()) {
            let begun = Precision::try_from(seconds).expect("not 0").beginning_at(Timestamp::from_unix(at.into()));
            prop_assert_eq!(precision(width(begun)), Some(begun));
            let plain = Precision::try_from(seconds).expect("not 0");
            prop_assert_eq!(width(plain), i64::from(seconds));
        }
    }
}
