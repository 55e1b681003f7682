//! A store in memory, with a test's own hand in what goes to it.

use std::future::ready;
use std::ops::Range;

use counter_core::{
    Batch, Bucket, Cleaned, CounterName, Error, Grid, MemoryStore, Precision, Precisions, Sample, Shard,
    Sketch, Store, Timestamp, Verdict, Witness, WriterId,
};

/// What a test does to the calls of a [`Through`].
pub(crate) trait Hand: Clone + Send + Sync + 'static {
    /// Lets a call that changes something pass, or answers it.
    fn pass(&self) -> Result<(), Error> {
        Ok(())
    }

    fn apply(
        &self,
        store: &MemoryStore,
        batch: &Batch,
    ) -> impl Future<Output = Result<Verdict, Error>> + Send {
        store.apply(batch)
    }

    fn witness(&self, _: WriterId) -> Option<Witness> {
        None
    }

    /// Lets a read of samples go on.
    fn read(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Through<H> {
    pub(crate) inner: MemoryStore,
    pub(crate) hand: H,
}

impl<H: Hand> Through<H> {
    pub(crate) fn new(hand: H) -> Self {
        Self { inner: MemoryStore::new(), hand }
    }
}

impl<H: Hand> Store for Through<H> {
    async fn apply(&self, batch: &Batch) -> Result<Verdict, Error> {
        self.hand.pass()?;
        self.hand.apply(&self.inner, batch).await
    }

    async fn witness(&self, _: Shard, writer: WriterId) -> Result<Option<Witness>, Error> {
        self.hand.pass()?;
        Ok(self.hand.witness(writer))
    }

    async fn clean(&self, shard: Shard, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Error> {
        self.hand.pass()?;
        self.inner.clean(shard, now, kept).await
    }

    async fn adopt(&self, _: Shard, _: Option<String>, _: &Precisions) -> Result<Option<String>, Error> {
        Ok(None)
    }

    async fn samples(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Vec<Sample>>, Error> {
        self.hand.read().await;
        self.inner.samples(counters, precision, range).await
    }

    async fn lifetimes(&self, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
        self.inner.lifetimes(counters).await
    }

    async fn forget(&self, counter: &CounterName, grid: &Grid, now: Timestamp) -> Result<(), Error> {
        self.inner.forget(counter, grid, now).await
    }

    async fn visitors(&self, counters: &[CounterName], buckets: &[Bucket]) -> Result<Sketch, Error> {
        self.inner.visitors(counters, buckets).await
    }

    async fn salt(&self, epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> Result<[u8; 16], Error> {
        self.hand.pass()?;
        self.inner.salt(epoch, candidate, expiry).await
    }

    async fn known(
        &self,
        precisions: &[Precision],
        from: &str,
        limit: usize,
    ) -> Result<Vec<(CounterName, Precision)>, Error> {
        self.inner.known(precisions, from, limit).await
    }
}
