//! Recovered batches must count once if a store loses replies or fences.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use counter_core::stores::{StoreFuture, WriterId};
use counter_core::visits::store::{ApplyOutcome, Batch, StoredFence, Witness, Write};
use counter_core::{Error, ErrorKind, MemoryStore};
use tests::within;

use super::super::histories::Model;
use super::{LIMIT, folder, over, record, run_until, spool, spool_and_kill, sums, total};
use crate::intercepted_store::{Hooks, InterceptedStore};

/// A store that accepts a limited number of batches with hits.
#[derive(Clone, Debug, Default)]
struct Few {
    left: Arc<AtomicU64>,
    /// Replies that replace the actual replies to the next applied batches with hits.
    instead: Arc<Mutex<Vec<Result<ApplyOutcome, Error>>>>,
    /// True if a fence is lost as soon as it is created.
    forgets: Arc<AtomicBool>,
    /// True if the store reports that it evicts keys and does not list any writer.
    evicts: bool,
    is_unavailable: Arc<AtomicBool>,
}

impl Few {
    fn set_batch_limit(&self, batches: u64) {
        self.left.store(batches, Ordering::Relaxed);
    }
}

impl Hooks for Few {
    fn before_write(&self) -> Result<(), Error> {
        match self.is_unavailable.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable)),
            false => Ok(()),
        }
    }

    fn apply<'a>(&'a self, store: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            if self.forgets.load(Ordering::Relaxed) {
                return Ok(match batch.fence.after {
                    0 => ApplyOutcome::Applied(Vec::new()),
                    _ => ApplyOutcome::SequenceGap { found: StoredFence::default() },
                });
            }
            let left = self.left.load(Ordering::Relaxed);
            if batch.hits() > 0 {
                self.set_batch_limit(left.checked_sub(1).ok_or_else(|| Error::new(ErrorKind::Unavailable))?);
            }
            let outcome = store.apply(batch).await;
            let mut instead = self.instead.lock().expect("no panic");
            if batch.hits() > 0 && !instead.is_empty() { instead.remove(0) } else { outcome }
        })
    }

    fn witness(&self, _: WriterId) -> Option<Witness> {
        self.evicts.then(|| Witness { evicts: true, ..Witness::default() })
    }
}

/// Ends a process with a batch of 5 hits in the spool. A previous batch is already stored.
async fn leave_a_batch(store: &InterceptedStore<Few>, folder: &Path) {
    let mut counters = over(store, folder);
    store.hooks.set_batch_limit(1);
    record(&counters, 1);
    counters.flush().await.expect("the store accepts one batch");
    record(&counters, 5);
    counters.flush().await.expect_err("the store accepts no other");
}

/// A store that can lose replies, and can refuse to create a fence.
#[derive(Clone, Debug)]
struct Opening {
    model: Model,
    loses_replies: Arc<AtomicBool>,
    refuses_fences: Arc<AtomicBool>,
}

impl Opening {
    fn store() -> InterceptedStore<Self> {
        let model = Model::new(0, true);
        InterceptedStore::new(Self { model, loses_replies: Arc::default(), refuses_fences: Arc::default() })
    }

    fn lose_replies(&self, loses: bool) {
        self.loses_replies.store(loses, Ordering::Relaxed);
    }

    fn stored(&self) -> u64 {
        self.model.data(|data| data.hits)
    }
}

impl Hooks for Opening {
    fn apply<'a>(&'a self, store: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            if batch.fence.is_opening() && self.refuses_fences.load(Ordering::Relaxed) {
                return Ok(ApplyOutcome::SequenceGap { found: StoredFence::default() });
            }
            let outcome = self.model.apply(store, batch).await?;
            match self.loses_replies.load(Ordering::Relaxed) && matches!(outcome, ApplyOutcome::Applied(_)) {
                true => Err(Error::new(ErrorKind::Unavailable)),
                false => Ok(outcome),
            }
        })
    }

    fn witness(&self, writer: WriterId) -> Option<Witness> {
        self.model.witness(writer)
    }
}

#[tokio::test]
async fn hits_in_doubt_are_reported_even_if_the_reply_to_the_new_fence_is_lost() {
    let (store, folder) = (Opening::store(), folder());
    let mut counters = over(&store, folder.path());
    record(&counters, 1);
    counters.flush().await.expect("the store is available");
    store.hooks.model.set_batch_limit(0);
    record(&counters, 5);
    counters.flush().await.expect_err("the store may or may not have these hits");
    store.hooks.model.set_batch_limit(u64::MAX);
    store.hooks.model.data(|data| data.fences.clear());
    record(&counters, 30);
    store.hooks.lose_replies(true);
    counters.flush().await.expect_err("the reply is lost");
    store.hooks.lose_replies(false);
    let reported = counters.stats().ledger().hits;
    drop(counters);

    let mut next = over(&store, folder.path());
    next.flush().await.expect("the store is available");
    assert_eq!((reported.dropped.in_doubt, next.stats().ledger().hits.dropped.in_doubt), (5, 0));
    assert_eq!(store.hooks.stored(), 31);
    next.run(async {}).await.expect("nothing is left");
}

#[tokio::test]
async fn hits_in_doubt_are_not_sent_again_after_the_store_has_refused_the_new_fence() {
    let (store, folder) = (Opening::store(), folder());
    let mut counters = over(&store, folder.path());
    record(&counters, 1);
    counters.flush().await.expect("the store is available");
    store.hooks.lose_replies(true);
    record(&counters, 5);
    counters.flush().await.expect_err("the reply is lost");
    store.hooks.lose_replies(false);
    store.hooks.model.data(|data| data.fences.clear());
    store.hooks.refuses_fences.store(true, Ordering::Relaxed);
    counters.flush().await.expect_err("the store does not keep fences");
    store.hooks.refuses_fences.store(false, Ordering::Relaxed);
    counters.flush().await.expect("the store works");
    assert_eq!(counters.stats().ledger().hits.dropped.in_doubt, 5);
    drop(counters);

    let mut next = over(&store, folder.path());
    next.flush().await.expect("the store is available");
    assert_eq!(store.hooks.stored(), 6);
    next.run(async {}).await.expect("nothing is left");
}

#[tokio::test]
async fn a_recovered_batch_with_a_lost_reply_is_resolved_once_found() {
    let (store, folder) = (InterceptedStore::new(Few::default()), folder());
    leave_a_batch(&store, folder.path()).await;
    store.hooks.set_batch_limit(10);
    let lost = [
        Err(Error::new(ErrorKind::Unavailable)),
        Ok(ApplyOutcome::SequenceGap { found: StoredFence { sequence: 2, ..StoredFence::default() } }),
    ];
    store.hooks.instead.lock().expect("no panic").extend(lost);
    let mut next = over(&store, folder.path());
    for _ in 0..2 {
        next.flush().await.expect("no new hits to send");
    }
    assert!(store.hooks.instead.lock().expect("no panic").is_empty());
    let hits = next.stats().ledger().hits;
    assert_eq!((sums(hits), hits.pending, total(&next.stats()).await), ((5, 5, 5), 0, 6));
    next.run(async {}).await.expect("nothing is left");
}

#[tokio::test]
async fn a_store_that_loses_fences_immediately_does_not_block_flushes() {
    let (store, folder) = (InterceptedStore::new(Few::default()), folder());
    leave_a_batch(&store, folder.path()).await;
    store.hooks.set_batch_limit(10);
    store.hooks.forgets.store(true, Ordering::Relaxed);
    let mut next = over(&store, folder.path());
    let flushed = within(LIMIT, next.flush()).await.expect("it ends");
    flushed.expect("no new hits to send");
    store.hooks.forgets.store(false, Ordering::Relaxed);
    next.flush().await.expect("the store works");
    assert_eq!(next.stats().ledger().hits.pending, 0);
}

#[tokio::test]
async fn hits_never_sent_are_not_in_doubt_even_if_the_store_evicts() {
    let (store, folder) = (InterceptedStore::new(Few { evicts: true, ..Few::default() }), folder());
    store.hooks.is_unavailable.store(true, Ordering::Relaxed);
    let counters = over(&store, folder.path());
    record(&counters, 5);
    spool_and_kill(counters).await;
    store.hooks.is_unavailable.store(false, Ordering::Relaxed);
    store.hooks.set_batch_limit(10);
    let mut next = over(&store, folder.path());
    next.flush().await.expect("the store is available");
    let hits = next.stats().ledger().hits;
    assert_eq!((sums(hits), hits.dropped.in_doubt, total(&next.stats()).await), ((5, 5, 5), 0, 5));
}

#[tokio::test]
async fn hits_are_sent_after_a_lost_fence_even_if_the_disk_fails() {
    let (store, folder) = (InterceptedStore::new(Few::default()), folder());
    let path = folder.path().join("spool");
    let mut counters = over(&store, &path);
    store.hooks.set_batch_limit(10);
    record(&counters, 1);
    counters.flush().await.expect("the store is available");
    std::fs::rename(&path, folder.path().join("elsewhere")).expect("one file system");
    record(&counters, 1);
    run_until(&mut counters, "the disk fails", async |stats| spool(stats).failing_for.is_some()).await;
    record(&counters, 1);
    store.hooks.forgets.store(true, Ordering::Relaxed);
    counters.flush().await.expect_err("the store does not keep fences");
    store.hooks.forgets.store(false, Ordering::Relaxed);
    counters.flush().await.expect("the store works");
    assert_eq!(total(&counters.stats()).await, 3);
    std::fs::rename(folder.path().join("elsewhere"), &path).expect("one file system");
    counters.run(async {}).await.expect("nothing is left");
}
