//! Batches that a process cut and sent while its disk failed, and a file that still has what waited before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use counter_core::stores::Answer;
use counter_core::visits::{ApplyOutcome, Batch};
use counter_core::{Error, ErrorKind, MemoryStore, Store, Timestamp};
use tests::until;

use super::{LIMIT, folder, over, record, run_until, spool};
use crate::support::{name, precision};
use crate::through::{Hand, Through};

/// A store that takes a number of batches with hits, and then none.
#[derive(Clone, Debug, Default)]
struct Few {
    left: Arc<AtomicU64>,
    /// What is answered to the next batches with hits instead, after they were applied.
    instead: Arc<Mutex<Vec<Result<ApplyOutcome, Error>>>>,
}

impl Few {
    fn takes(&self, batches: u64) {
        self.left.store(batches, Ordering::Relaxed);
    }
}

impl Hand for Few {
    fn apply<'a>(&'a self, store: &'a MemoryStore, batch: &'a Batch) -> Answer<'a, ApplyOutcome> {
        Box::pin(async move {
            let left = self.left.load(Ordering::Relaxed);
            if batch.hits() > 0 {
                self.takes(left.checked_sub(1).ok_or_else(|| Error::new(ErrorKind::Unavailable))?);
            }
            let outcome = store.apply(batch).await;
            let mut instead = self.instead.lock().expect("no panic");
            if batch.hits() > 0 && !instead.is_empty() { instead.remove(0) } else { outcome }
        })
    }
}

#[tokio::test]
async fn what_was_cut_otherwise_than_the_file_tells_counts_once() {
    let folder = folder();
    for batches in 0..3 {
        let store = Through::new(Few::default());
        let path = folder.path().join("spool");
        let mut counters = over(&store, &path);
        store.hand.takes(1);
        record(&counters, 1);
        counters.flush().await.expect("the store takes one");
        record(&counters, 1);
        counters.flush().await.expect_err("the store takes no other");
        // These wait behind it. By counter and by time they are in another order.
        let (recorder, now) = (counters.recorder(), Timestamp::now());
        let names: Vec<_> = (0..600).map(|number| format!("{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            let at = now.minus(if number < 300 { 10 } else { 20 });
            recorder.record_at(recorder.counter(name), None, at, std::num::NonZeroU32::MIN);
        }
        run_until(&mut counters, "all is written", async |stats| spool(stats).unwritten == 0).await;
        std::fs::rename(&path, folder.path().join("elsewhere")).expect("on one disk");
        record(&counters, 1);
        run_until(&mut counters, "the disk fails", async |stats| spool(stats).failing_for.is_some()).await;
        store.hand.takes(1 + batches);
        run_until(&mut counters, "some of it is sent", async |stats| {
            stats.health().failing_for.is_some() && store.hand.left.load(Ordering::Relaxed) == 0
        })
        .await;
        drop(counters);
        std::fs::rename(folder.path().join("elsewhere"), &path).expect("on one disk");
        store.hand.takes(1000);
        let mut next = over(&store, &path);
        until("it is sent", LIMIT, async || next.flush().await.is_ok()).await;
        let (stats, mut counted) = (next.stats(), 0);
        for name in names.iter().map(|text| self::name(text)) {
            let total = stats.total(&name, precision(86_400), now.minus(172_800)..now.plus(1)).await;
            let total = total.expect("readable");
            assert!(total <= 1, "{batches} batches: {total} of {name:?}");
            counted += total;
        }
        assert!(stats.ledger().hits.balance());
        assert!(counted > 0 || batches == 0, "{batches} batches");
        next.run(async {}).await.expect("all is sent");
    }
}
