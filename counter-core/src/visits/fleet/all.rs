//! Implements the store traits for a fleet: reads go to all sites, and everything else goes to the store of this process.

use super::{Fleet, merge};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::{Bucket, Grid, Kind, Precision, Precisions, Timestamp};
use crate::visits::ledger::Hint;
use crate::visits::store::{
    ApplyOutcome, Batch, Cleaned, CountedReading, KnownQuery, KnownReading, Query, Read, Readings, StoreInfo,
    Unreadable, Witness, Write,
};

impl Write for Fleet {
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
    fn info(&self) -> StoreInfo<'_> {
        let mut info = self.home.info();
        let sites: Vec<_> = self.sites.iter().map(|site| site.store.info()).collect();
        info.connections = sites.iter().map(|site| site.connections).sum();
        // What all sites retain.
        let first = sites.first().and_then(|first| first.reach);
        info.reach = first.filter(|first| sites.iter().all(|site| site.reach == Some(first)));
        let is_unreadable = self.sites.iter().any(|site| site.failure().is_some());
        info.hints.extend(is_unreadable.then_some(Hint::SITE_UNREADABLE));
        info.counts_visitors_per_site = self.sites.len() > 1 && !self.shares_visitors;
        info.sites = &self.sites;
        info
    }

    fn values<'a>(&'a self, kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings> {
        Box::pin(async move { Ok(merge::values(self.read(|site| site.values(kind, query.clone())).await?)) })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(async move {
            let replies = self.read(|site| site.lifetimes(counters)).await?;
            Ok(replies.each(counters.len(), merge::lifetime))
        })
    }

    fn known<'a>(&'a self, query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading> {
        Box::pin(async move { Ok(merge::known(self.read(|site| site.known(query)).await?)) })
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
