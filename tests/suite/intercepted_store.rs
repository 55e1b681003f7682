//! A memory store whose calls can be intercepted by a test.

use std::future::ready;
use std::ops::Range;

use counter_core::stores::{Shard, Shards, StoreFuture, WriterId};
use counter_core::time::{Bucket, Grid, Kind};
use counter_core::visits::store::{
    ApplyOutcome, Batch, CountedReading, KnownQuery, KnownReading, Query, Read, Readings, StoreInfo, Witness,
    Write,
};
use counter_core::visits::{Cleaned, Unreadable};
use counter_core::{CounterName, Error, MemoryStore, Precision, Precisions, Timestamp};

/// Hooks for the calls of an [`InterceptedStore`].
pub(crate) trait Hooks: Clone + std::fmt::Debug + Send + Sync + 'static {
    fn shards(&self) -> Shards {
        Shards::ONE
    }

    fn batch_samples(&self) -> usize {
        1000
    }

    /// Called before a write. An error will be returned instead of calling the store.
    fn before_write(&self) -> Result<(), Error> {
        Ok(())
    }

    fn apply<'a>(&'a self, store: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        store.apply(batch)
    }

    fn witness(&self, _: WriterId) -> Option<Witness> {
        None
    }

    fn reach(&self) -> Option<&Grid> {
        None
    }

    /// Called before samples are read. The read continues when this returns.
    fn read(&self, _: Precision, _: &Range<Timestamp>) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct InterceptedStore<H> {
    pub(crate) inner: MemoryStore,
    pub(crate) hooks: H,
}

impl<H: Hooks> InterceptedStore<H> {
    pub(crate) fn new(hooks: H) -> Self {
        Self { inner: MemoryStore::new(), hooks }
    }
}

impl<H: Hooks> Write for InterceptedStore<H> {
    fn apply<'a>(&'a self, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            self.hooks.before_write()?;
            self.hooks.apply(&self.inner, batch).await
        })
    }

    fn witness<'a>(&'a self, _: Shard, writer: WriterId) -> StoreFuture<'a, Option<Witness>> {
        Box::pin(async move {
            self.hooks.before_write()?;
            Ok(self.hooks.witness(writer))
        })
    }

    fn clean<'a>(
        &'a self,
        shard: Shard,
        now: Timestamp,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Cleaned> {
        Box::pin(async move {
            self.hooks.before_write()?;
            self.inner.clean(shard, now, retained).await
        })
    }

    fn adopt<'a>(
        &'a self,
        _: Shard,
        _: Option<String>,
        _: &'a Precisions,
    ) -> StoreFuture<'a, Option<String>> {
        Box::pin(ready(Ok(None)))
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> StoreFuture<'a, ()> {
        self.inner.forget(counter, grid, now)
    }

    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> StoreFuture<'a, [u8; 16]> {
        Box::pin(async move {
            self.hooks.before_write()?;
            self.inner.salt(epoch, candidate, expiry).await
        })
    }
}

impl<H: Hooks> Read for InterceptedStore<H> {
    fn info(&self) -> StoreInfo<'_> {
        let mut info = StoreInfo::default();
        info.shards = self.hooks.shards();
        info.batch_samples = self.hooks.batch_samples();
        info.reach = self.hooks.reach();
        info
    }

    fn values<'a>(&'a self, kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings> {
        Box::pin(async move {
            if kind == Kind::Counts {
                self.hooks.read(query.precision, &query.range).await;
            }
            self.inner.values(kind, query).await
        })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        self.inner.lifetimes(counters)
    }

    fn known<'a>(&'a self, query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading> {
        self.inner.known(query)
    }

    fn counted<'a>(&'a self, shard: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading> {
        self.inner.counted(shard, cursor)
    }
}
