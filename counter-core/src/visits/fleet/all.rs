//! Implements the store traits for a fleet: reads go to all sites, and everything else goes to the store of this process.

use std::ops::Range;

use super::{Fleet, merge};
use crate::document::DocumentStore;
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::family::writer::WriterId;
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Precision, Precisions, Timestamp};
use crate::visits::ledger::{ArchiveHealth, Hint};
use crate::visits::store::{
    ApplyOutcome, Batch, BinReading, Cleaned, CountedReading, KnownReading, Read, Reading, Site, Unions,
    Unreadable, Witness, Write,
};

impl Write for Fleet {
    fn batch_samples(&self) -> usize {
        self.home.batch_samples()
    }

    fn attach(&self, grid: &Grid) {
        self.home.attach(grid);
        self.sites.iter().for_each(|site| site.attach(grid));
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        self.home.apply(batch)
    }

    fn witness<'a>(&'a self, shard: Shard, writer: WriterId) -> StoreFuture<'a, Option<Witness>> {
        self.home.witness(shard, writer)
    }

    fn clean<'a>(
        &'a self,
        shard: Shard,
        now: Timestamp,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Cleaned> {
        self.home.clean(shard, now, retained)
    }

    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Option<String>> {
        self.home.adopt(shard, cursor, retained)
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> StoreFuture<'a, ()> {
        self.home.forget(counter, grid, now)
    }

    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> StoreFuture<'a, [u8; 16]> {
        self.home.salt(epoch, candidate, expiry)
    }
}

impl Read for Fleet {
    fn shards(&self) -> Shards {
        self.home.shards()
    }

    fn connections(&self) -> u64 {
        self.sites.iter().map(|site| site.store.connections()).sum()
    }

    fn kind(&self) -> String {
        self.home.kind()
    }

    fn documents(&self) -> Option<&dyn DocumentStore> {
        self.home.documents()
    }

    /// Returns what all sites retain.
    fn reach(&self) -> Option<&Grid> {
        let mut reaches = self.sites.iter().map(|site| site.store.reach());
        let first = reaches.next().flatten();
        first.filter(|first| reaches.all(|reach| reach == Some(first)))
    }

    fn sites(&self) -> &[Site] {
        &self.sites
    }

    fn counts_visitors_per_site(&self) -> bool {
        self.sites.len() > 1 && !self.shares_visitors
    }

    fn archive_health(&self) -> Option<ArchiveHealth> {
        self.home.archive_health()
    }

    fn hints(&self) -> Vec<Hint> {
        let mut hints = self.home.hints();
        let is_unreadable = self.sites.iter().any(|site| site.failure().is_some());
        hints.extend(is_unreadable.then_some(Hint::SITE_UNREADABLE));
        hints
    }

    fn clock_skew(&self) -> Option<i64> {
        self.home.clock_skew()
    }

    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        retained: u32,
    ) -> StoreFuture<'a, Vec<Result<Reading, Unreadable>>> {
        Box::pin(async move {
            let replies =
                self.read(|site| site.samples(counters, precision, range.clone(), retained)).await?;
            Ok(replies.each(counters.len(), merge::samples))
        })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(async move {
            let replies = self.read(|site| site.lifetimes(counters)).await?;
            Ok(replies.each(counters.len(), merge::lifetime))
        })
    }

    /// Fails if a site can't be read, because a single union can't state that it is too low.
    fn visitors<'a>(&'a self, counters: &'a [CounterName], buckets: &'a [Bucket]) -> StoreFuture<'a, Sketch> {
        Box::pin(async move {
            let replies = self.read(|site| site.visitors(counters, buckets)).await?;
            match replies.missing {
                Some(missing) => Err(missing.into()),
                None => Ok(replies.all.iter().fold(Sketch::new(), |mut union, sketch| {
                    union.merge(sketch);
                    union
                })),
            }
        })
    }

    fn sketches<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> StoreFuture<'a, Vec<Vec<Result<Sketch, Unreadable>>>> {
        Box::pin(async move {
            let replies = self.read(|site| site.sketches(counters, buckets)).await?;
            // The buckets that all sites returned.
            let length = replies.all.iter().map(Vec::len).min().unwrap_or_default();
            let merged = replies.each(length, |sites, missing| {
                super::Replies { all: sites, missing: missing.cloned() }.each(counters.len(), merge::sketch)
            });
            Ok(merged)
        })
    }

    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        unions: &'a [Vec<Bucket>],
    ) -> StoreFuture<'a, Vec<Vec<Result<u64, Unreadable>>>> {
        Box::pin(async move { Unions::read(self, counters, unions).await })
    }

    fn bins<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> StoreFuture<'a, Vec<BinReading>> {
        Box::pin(async move {
            let replies = self.read(|site| site.bins(counters, precision, range.clone())).await?;
            Ok(replies.each(counters.len(), merge::bins))
        })
    }

    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, KnownReading> {
        Box::pin(
            async move { Ok(merge::known(self.read(|site| site.known(precisions, from, limit)).await?)) },
        )
    }

    fn known_since<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
        since: Timestamp,
    ) -> StoreFuture<'a, KnownReading> {
        Box::pin(async move {
            let replies = self.read(|site| site.known_since(precisions, from, limit, since)).await?;
            Ok(merge::known(replies))
        })
    }

    /// Only lists the store of this process, because [`Stats::forget`](crate::Stats::forget) forgets a counter in each store.
    fn counted<'a>(&'a self, shard: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading> {
        self.home.counted(shard, cursor)
    }

    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> StoreFuture<'a, Vec<Result<bool, Unreadable>>> {
        Box::pin(async move {
            let replies = self.read(|site| site.contains(counters, precisions)).await?;
            Ok(replies.each(counters.len(), merge::contained))
        })
    }
}
