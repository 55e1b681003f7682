use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::database::{EntityAddition, EntityBatch, EntityDatabase};
use super::entities::invalidations::InvalidationGuard;
use super::entities::{Entities, Inner};
use super::error::{EntityError, EntityErrorKind};
use super::id::EntityId;
use super::kind::Entity;
use crate::family::operations::measured;
use crate::family::passes::until;
use crate::family::writer::WriterId;
use crate::log::unwind::{catch_panic, emit};
use crate::time::later::later;

/// A handle for in-memory additions that don't need to be in the database immediately, e.g. views.
///
/// Additions to the same field of an entity are merged and then written by an [`EntityFlusher`]. Clones share
/// the same state. For an example, see [`Entities::write_behind`].
#[derive(Debug)]
pub struct WriteBehind<K> {
    shared: Arc<Shared>,
    kind: PhantomData<K>,
}

/// The reason for a rejected addition.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// The limit of pending fields is reached, and this field is not pending yet.
    Full,
    /// The pending sum of the field would overflow an `i64`.
    OutOfRange,
}

/// Statistics on calls to [`WriteBehind::add`], where `recorded = applied + pending + dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityLedger {
    /// Number of accepted calls.
    pub recorded: u64,
    /// Number of calls applied to the database.
    pub applied: u64,
    /// Number of calls not yet acknowledged by the database.
    pub pending: u64,
    /// Number of calls that were dropped because the count in the database would overflow.
    pub dropped: u64,
    /// Number of rejected calls, which are not part of the sum.
    pub rejected: u64,
}

/// Writes pending additions, either with [`flush`](Self::flush) or continuously with [`run`](Self::run).
///
/// A batch is written in the same transaction as its fence, and is resent unchanged until the database
/// acknowledges it. Thus, it is counted exactly once even if responses are lost.
pub struct EntityFlusher<K, D> {
    entities: Entities<K, D>,
    shared: Arc<Shared>,
    writer: WriterId,
    sequence: u64,
    /// Batch that has been sent but not acknowledged. It never changes.
    outgoing: Option<EntityBatch>,
    interval: Duration,
    shutdown_timeout: Duration,
}

/// Maximum number of rows per batch, which takes about 10 ms of database time.
const MAX_ROWS: usize = 1000;

#[derive(Debug)]
struct Shared {
    max: usize,
    waiting: Mutex<Waiting>,
    /// Wakes the flusher when the number of pending fields exceeds half of `max`.
    filling: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    sums: BTreeMap<(EntityId, &'static str), Sum>,
    /// Number of fields in the outgoing batch, which count towards `max` until the batch is acknowledged.
    outgoing: usize,
    ledger: EntityLedger,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    by: i64,
    calls: u64,
}

impl<K: Entity, D: EntityDatabase> Entities<K, D> {
    /// Creates a handle for in-memory additions, and the flusher that writes them.
    ///
    /// The limit for pending fields is `max`, with about 200 bytes per field; further additions are rejected.
    /// Pending additions are lost if the process crashes, i.e. up to the last second, or everything since the
    /// database became unavailable.
    ///
    /// ```
    /// # use counter_core::entity::Entities;
    /// # use counter_core::unstable::SqliteDatabase;
    /// # use counter_core::{MemoryStore, entity};
    /// # entity! { enum Post: "post" { Views = "views" } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let posts = Entities::<Post, _>::new(SqliteDatabase::in_memory().await?, MemoryStore::new());
    /// let (views, mut flusher) = posts.write_behind(10_000);
    /// for _ in 0..1000 {
    ///     views.add(42, Post::Views, 1)?;
    /// }
    /// flusher.flush().await?; // `run` does this once per second
    ///
    /// assert_eq!(posts.counts_of(42).await?.of(Post::Views), 1000);
    /// assert_eq!(views.ledger().applied, 1000);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn write_behind(&self, max: usize) -> (WriteBehind<K>, EntityFlusher<K, D>) {
        let (waiting, filling) = (Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { max, waiting, filling });
        let flusher = EntityFlusher {
            entities: self.clone(),
            shared: Arc::clone(&shared),
            writer: WriterId::random(),
            sequence: 0,
            outgoing: None,
            interval: Duration::from_secs(1),
            shutdown_timeout: Duration::from_secs(10),
        };
        (WriteBehind { shared, kind: PhantomData }, flusher)
    }
}

impl<K: Entity> WriteBehind<K> {
    /// Adds to a count. This will be in the database after the next flush.
    ///
    /// # Errors
    /// Fails if the addition is rejected. You can call [`Entities::increment`] instead.
    pub fn add(&self, id: impl Into<EntityId>, field: K, by: i64) -> Result<(), AddError> {
        let (added, taken) = {
            let waiting = &mut *self.shared.waiting();
            let added = waiting.add((id.into(), field.name()), by, self.shared.max);
            match added {
                Ok(()) => waiting.ledger.recorded += 1,
                Err(_) => waiting.ledger.rejected += 1,
            }
            (added, waiting.sums.len() + waiting.outgoing)
        };
        if 2 * taken > self.shared.max {
            self.shared.filling.notify_one();
        }
        added
    }

    /// Returns statistics on all calls to [`add`](Self::add) since the handle was created, including clones.
    #[must_use]
    pub fn ledger(&self) -> EntityLedger {
        self.shared.ledger()
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("the lock is never poisoned")
    }

    fn ledger(&self) -> EntityLedger {
        let ledger = self.waiting().ledger;
        EntityLedger { pending: ledger.recorded - ledger.applied - ledger.dropped, ..ledger }
    }
}

impl Waiting {
    fn add(&mut self, key: (EntityId, &'static str), by: i64, max: usize) -> Result<(), AddError> {
        let full = self.sums.len() + self.outgoing >= max;
        if full && !self.sums.contains_key(&key) {
            return Err(AddError::Full);
        }
        let sum = self.sums.entry(key).or_default();
        sum.by = sum.by.checked_add(by).ok_or(AddError::OutOfRange)?;
        sum.calls += 1;
        Ok(())
    }

    fn take(&mut self) -> Vec<EntityAddition> {
        let rest = self.sums.keys().nth(MAX_ROWS).copied();
        let rest = rest.map(|first| self.sums.split_off(&first)).unwrap_or_default();
        let taken = std::mem::replace(&mut self.sums, rest);
        self.outgoing = taken.len();
        let addition = |((id, field), Sum { by, calls })| EntityAddition { id, field, by, calls };
        taken.into_iter().map(addition).collect()
    }
}

impl<K: Entity, D: EntityDatabase> EntityFlusher<K, D> {
    /// Writes all additions made before this call.
    ///
    /// # Errors
    /// Fails if the database doesn't acknowledge a batch, or on a panic. Additions are not lost: the next
    /// call continues with the same batch.
    ///
    /// # Cancel safety
    /// Cancel safe: if the future is dropped, additions are neither lost nor duplicated.
    pub async fn flush(&mut self) -> Result<(), EntityError> {
        // Additions during the write are left for the next flush.
        let mut batches = 1 + self.shared.waiting().sums.len().div_ceil(MAX_ROWS);
        while batches > 0 && self.load() {
            catch_panic(measured("entity_flush", self.send())).await?;
            batches -= 1;
        }
        Ok(())
    }

    /// Returns `true` if there is a batch to send.
    fn load(&mut self) -> bool {
        if self.outgoing.is_none() {
            let additions = self.shared.waiting().take();
            if additions.is_empty() {
                return false;
            }
            self.sequence += 1;
            let (writer, sequence, kind) = (self.writer, self.sequence, K::NAME);
            self.outgoing = Some(EntityBatch { writer, sequence, kind, additions });
        }
        true
    }

    async fn send(&mut self) -> Result<(), EntityError> {
        let Some(batch) = &self.outgoing else { return Ok(()) };
        let inner: &Inner<K, D> = &self.entities.0;
        let outcome = inner.database.apply(batch).await?;
        // We need to remove the batch and update the ledger before any other call, because a panic there
        // would count the calls again.
        let ids: Vec<_> = batch.additions.iter().map(|addition| addition.id).collect();
        let calls: u64 = batch.additions.iter().map(|addition| addition.calls).sum();
        let dropped = outcome.rejected.min(calls);
        self.outgoing = None;
        {
            let waiting = &mut *self.shared.waiting();
            waiting.ledger.applied += calls - dropped;
            waiting.ledger.dropped += dropped;
            waiting.outgoing = 0;
        }
        let mut guard = InvalidationGuard::new(&inner.invalidations, ids.clone());
        guard.written();
        if dropped > 0 {
            tracing::error!(calls = dropped, kind = K::NAME, "dropped additions that would overflow a count");
        }
        match outcome.rows {
            Some(rows) => inner.report_changes(guard, &rows).await,
            // The resulting rows are not known, so dropping the guard removes these copies.
            None => inner.queries.end(ids),
        }
        Ok(())
    }

    /// Flushes every second, or earlier if half of the slots are in use, until `shutdown` completes. Then
    /// flushes pending additions for up to 10 seconds.
    ///
    /// Errors are logged, including panics in the database, cache or log, and retried with exponential
    /// backoff. Only `shutdown` ends the loop.
    ///
    /// # Errors
    /// Returns [`Unflushed`](EntityErrorKind::Unflushed) if there are pending additions at the deadline.
    ///
    /// # Cancel safety
    /// Cancel safe like [`flush`](Self::flush). You can call `run` again.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), EntityError> {
        until(shutdown, self.flush_forever()).await;
        let deadline = later(Instant::now(), self.shutdown_timeout);
        let mut delay = MIN_RETRY_DELAY;
        loop {
            let cause = match timeout_at(deadline, self.flush()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error),
                Err(late) => Some(EntityError::new(EntityErrorKind::Unavailable).caused_by(late)),
            };
            let additions = self.shared.ledger().pending;
            if additions == 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let unflushed = EntityError::new(EntityErrorKind::Unflushed { additions });
                return Err(cause.into_iter().fold(unflushed, EntityError::caused_by));
            }
            if cause.is_some() {
                sleep_until(deadline.min(Instant::now() + super::jitter::jitter(delay))).await;
                delay = (2 * delay).min(MAX_RETRY_DELAY);
            }
        }
    }

    async fn flush_forever(&mut self) {
        let (shared, mut delay) = (Arc::clone(&self.shared), MIN_RETRY_DELAY);
        loop {
            match self.flush().await {
                Ok(()) => {
                    delay = MIN_RETRY_DELAY;
                    tokio::select! {
                        () = sleep(self.interval) => {}
                        () = shared.filling.notified() => {}
                    }
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    const WRITE_FAILED: &str = "failed to write counts to the database; retrying";
                    if self.entities.0.log_limit.admits(WRITE_FAILED) {
                        emit(|| tracing::warn!(%error, cause, kind = K::NAME, "{WRITE_FAILED}"));
                    }
                    sleep(super::jitter::jitter(delay)).await;
                    delay = (2 * delay).min(MAX_RETRY_DELAY);
                }
            }
        }
    }
}

const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

impl<K> Clone for WriteBehind<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), kind: PhantomData }
    }
}

impl<K: Entity, D> fmt::Debug for EntityFlusher<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("EntityFlusher");
        debug.field("kind", &K::NAME).field("writer", &self.writer).field("sequence", &self.sequence);
        debug.finish_non_exhaustive()
    }
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the limit of pending entity counts is reached",
            Self::OutOfRange => "the pending sum of this count would overflow",
        })
    }
}

impl std::error::Error for AddError {}

crate::log::debug::debug_in_full!(AddError);
