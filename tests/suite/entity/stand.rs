//! Wrappers around a real database and a real cache, so that tests can block calls or make them fail or
//! panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use counter_core::entity::store::{
    EntityApplyOutcome, EntityAudit, EntityBatch, EntityCopy, EntityFound, EntityLease, EntityRow,
};
use counter_core::entity::{EntityCache, EntityDatabase, EntityError, EntityErrorKind, EntityId, Versioned};
use counter_core::stores::StoreFuture;
use counter_core::{Error, ErrorKind};
use tokio::sync::watch;

/// A gate that blocks calls while it is closed.
#[derive(Debug)]
pub(super) struct Gate {
    open: watch::Sender<bool>,
    arrived: AtomicU64,
}

impl Gate {
    fn new() -> Self {
        Self { open: watch::Sender::new(true), arrived: AtomicU64::new(0) }
    }

    pub(super) fn close(&self) {
        self.open.send_replace(false);
    }

    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::SeqCst)
    }

    async fn pass(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        self.open.subscribe().wait_for(|open| *open).await.expect("it is not dropped");
    }
}

#[derive(Debug)]
pub(super) struct Gates {
    pub(super) before_read: Gate,
    pub(super) after_read: Gate,
    pub(super) after_write: Gate,
    /// Number of writes to be applied without a reply.
    pub(super) lost: AtomicU64,
    /// Number of increments to be rejected as `Busy` before they are applied.
    pub(super) busy: AtomicU64,
    /// Number of batches to panic on after they are applied.
    pub(super) panics: AtomicU64,
}

/// A database with gates.
#[derive(Clone, Debug)]
pub(super) struct Gated<D> {
    inner: D,
    pub(super) gates: Arc<Gates>,
}

impl<D> Gated<D> {
    pub(super) fn new(inner: D) -> Self {
        let gates = Gates {
            before_read: Gate::new(),
            after_read: Gate::new(),
            after_write: Gate::new(),
            lost: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            panics: AtomicU64::new(0),
        };
        Self { inner, gates: Arc::new(gates) }
    }

    fn answer<T>(&self, answer: Result<T, EntityError>) -> Result<T, EntityError> {
        if take(&self.gates.lost) { Err(EntityError::new(EntityErrorKind::Unconfirmed)) } else { answer }
    }
}

fn take(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl<D: EntityDatabase> EntityDatabase for Gated<D> {
    async fn create_tables(&self) -> Result<(), EntityError> {
        self.inner.create_tables().await
    }

    async fn increment(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> Result<Versioned, EntityError> {
        if take(&self.gates.busy) {
            return Err(EntityError::new(EntityErrorKind::Busy));
        }
        let row = self.inner.increment(kind, id, field, by).await;
        self.gates.after_write.pass().await;
        self.answer(row)
    }

    async fn read(
        &self,
        kind: &'static str,
        ids: &[EntityId],
        fields: &'static [&'static str],
    ) -> Result<Vec<EntityRow>, EntityError> {
        self.gates.before_read.pass().await;
        let rows = self.inner.read(kind, ids, fields).await;
        self.gates.after_read.pass().await;
        rows
    }

    async fn apply(&self, batch: &EntityBatch) -> Result<EntityApplyOutcome, EntityError> {
        let verdict = self.inner.apply(batch).await;
        self.gates.after_write.pass().await;
        assert!(!take(&self.gates.panics), "a database that panics");
        self.answer(verdict)
    }

    async fn correct(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        seen: u64,
        value: i64,
    ) -> Result<Option<Versioned>, EntityError> {
        self.inner.correct(kind, id, field, seen, value).await
    }

    async fn entities(
        &self,
        kind: &'static str,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<EntityId>, EntityError> {
        self.inner.entities(kind, after, limit).await
    }
}

/// A cache that can be made to fail, either before or after the call is processed.
#[derive(Clone, Debug)]
pub(super) struct Frail<C> {
    inner: C,
    unreachable: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
    hung: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

impl<C> Frail<C> {
    pub(super) fn new(inner: C) -> Self {
        let (unreachable, mute, hung, panics) = Default::default();
        Self { inner, unreachable, mute, hung, panics, calls: Arc::default() }
    }

    /// Makes the cache unreachable.
    pub(super) fn set_unreachable(&self, unreachable: bool) {
        self.unreachable.store(unreachable, Ordering::SeqCst);
    }

    /// Makes the cache process calls without a reply.
    pub(super) fn set_mute(&self, mute: bool) {
        self.mute.store(mute, Ordering::SeqCst);
    }

    /// Makes the cache hang.
    pub(super) fn set_hung(&self, hung: bool) {
        self.hung.store(hung, Ordering::SeqCst);
    }

    /// Makes the cache panic.
    pub(super) fn panic(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    /// Returns the number of calls.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn through<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics.load(Ordering::SeqCst), "a cache that panics");
        if self.hung.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.unreachable.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable));
        }
        let answer = call.await;
        if self.mute.load(Ordering::SeqCst) { Err(Error::new(ErrorKind::Unavailable)) } else { answer }
    }
}

impl<C: EntityCache> EntityCache for Frail<C> {
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> StoreFuture<'a, Vec<EntityFound>> {
        Box::pin(async move { self.through(self.inner.read(kind, ids, fields, lease)).await })
    }

    fn store<'a>(
        &'a self,
        kind: &'static str,
        copies: &'a [EntityCopy],
        lease: EntityLease,
    ) -> StoreFuture<'a, u64> {
        Box::pin(async move { self.through(self.inner.store(kind, copies, lease)).await })
    }

    fn update<'a>(&'a self, kind: &'static str, changes: &'a [EntityRow]) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.through(self.inner.update(kind, changes)).await })
    }

    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> StoreFuture<'a, EntityAudit> {
        Box::pin(async move { self.through(self.inner.audit(kind, rows)).await })
    }

    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.through(self.inner.invalidate(kind, ids)).await })
    }

    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.through(self.inner.lock(kind, lease)).await })
    }

    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.through(self.inner.unlock(kind, lease)).await })
    }
}
