//! Visits in a SQL database. A batch is a single transaction, which also checks and updates the fence.

mod fence;
mod names;
mod read;
mod additions;
mod raised;
mod bins;
mod apply;
mod salt;
mod clean;
#[cfg(feature = "archive")]
mod archive;
mod forget;

use std::sync::Arc;

use super::batch::{ApplyOutcome, Batch};
use super::fence::Witness;
use super::read::{Read, StoreInfo};
use super::reading::{CountedReading, KnownQuery, KnownReading, Query, Readings, Total, Unreadable};
use super::skew::Skew;
use super::write::{Cleaned, Write};
use crate::document::sql::SqlDocuments;
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::sql::{Database, Failure};
use crate::time::{Bucket, Grid, Kind, Precision, Precisions, Timestamp};
use crate::visits::ledger::Hint;

/// Maximum number of samples that a batch changes. This allows for about 700 counts, to keep the number of
/// transactions in a flush low. After an outage, every sample could be in a different bucket, and thus need
/// its own statements.
const MAX_BATCH_SAMPLES: usize = 10_000;

/// A store for visits in a SQL database.
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
    fn apply<'a>(&'a self, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(apply::apply(self, batch))
    }

    fn witness<'a>(&'a self, _: Shard, writer: WriterId) -> StoreFuture<'a, Option<Witness>> {
        Box::pin(async move { fence::witness(self, writer).await.map(Some) })
    }

    fn clean<'a>(&'a self, _: Shard, now: Timestamp, retained: &'a Precisions) -> StoreFuture<'a, Cleaned> {
        Box::pin(clean::clean(self, now, retained))
    }

    /// Also removes idle writers and forgotten counters, since this is not done by the server.
    fn adopt<'a>(
        &'a self,
        _: Shard,
        _: Option<String>,
        _: &'a Precisions,
    ) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            fence::forget_idle(self).await?;
            forget::delete_forgotten_records(self).await?;
            forget::delete_unused_values(self).await?;
            Ok(None)
        })
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> StoreFuture<'a, ()> {
        Box::pin(forget::forget(self, counter, grid, now))
    }

    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> StoreFuture<'a, [u8; 16]> {
        Box::pin(salt::salt(self, epoch, candidate, expiry))
    }
}

impl Read for SqlVisits {
    fn info(&self) -> StoreInfo<'_> {
        let hints = [
            (self.database.was_replaced(), Hint::STORE_REPLACED),
            (self.database.is_clock_ahead(), Hint::CLOCK_JUMPED),
        ];
        StoreInfo {
            kind: self.database.dialect().name.into(),
            batch_samples: MAX_BATCH_SAMPLES,
            documents: Some(&self.documents),
            connections: self.database.connections(),
            clock_skew: self.skew.seconds(),
            hints: hints.into_iter().filter(|(holds, _)| *holds).map(|(_, hint)| hint).collect(),
            ..StoreInfo::default()
        }
    }

    fn values<'a>(&'a self, kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings> {
        Box::pin(async move {
            match kind {
                Kind::Counts => read::samples(self, query).await,
                Kind::Visitors => read::sketches(self, query).await,
                Kind::Distributions => bins::read(self, query).await,
            }
        })
    }

    fn totals<'a>(&'a self, query: Query<'a>) -> StoreFuture<'a, Vec<Result<Total, Unreadable>>> {
        Box::pin(read::totals(self, query))
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(read::lifetimes(self, counters))
    }

    fn known<'a>(&'a self, query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading> {
        Box::pin(read::known(self, query))
    }

    fn counted<'a>(&'a self, _: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading> {
        Box::pin(read::counted(self, cursor))
    }

    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> StoreFuture<'a, Vec<Result<bool, Unreadable>>> {
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
    let shifted = Precision::try_from(seconds).ok()?.starting_at(Timestamp::from_unix(offset.into()));
    (shifted.offset() == offset).then_some(shifted)
}

fn unix(at: Timestamp) -> i64 {
    i64::try_from(at.as_unix()).expect("timestamps fit into an i64")
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
        fn precisions_round_trip_through_numbers(seconds in 1..=u32::MAX, at in any::<u32>()) {
            let shifted = Precision::try_from(seconds).expect("not 0").starting_at(Timestamp::from_unix(at.into()));
            prop_assert_eq!(precision(width(shifted)), Some(shifted));
            let plain = Precision::try_from(seconds).expect("not 0");
            prop_assert_eq!(width(plain), i64::from(seconds));
        }
    }
}
