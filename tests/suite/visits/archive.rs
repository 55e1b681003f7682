//! Tests for archives: copies into the far store, and reads that combine both stores.

mod away;
mod contract;
mod copies;
mod audits;
mod histories;
mod imports;
mod first_copies;

use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::sketch::Sketch;
use counter_core::stores::{Shard, WriterId};
use counter_core::time::{Bucket, Grid, Kind, Retention};
use counter_core::visits::store::{Adds, ApplyOutcome, Batch, Cell, Fence, FenceKind, Incarnation};
use counter_core::{Precisions, Sample, Store, Timestamp};

use crate::support::{always, name, precision, query, sketch_of, unix};

/// Builds precisions from pairs of a width and a number of retained samples.
fn retained<const N: usize>(retained: [(u32, u32); N]) -> Precisions {
    let retention = |(width, samples)| Retention {
        precision: precision(width),
        samples: NonZeroU32::new(samples).expect("not 0"),
    };
    Precisions::new(retained.map(retention)).expect("a set")
}

/// Sends hits like a process would, with a new fence.
async fn send(store: &impl Store, grid: &Arc<Grid>, cells: Vec<Cell>) {
    for shard in store.info().shards.iter() {
        let of = |counter: &str| store.info().shards.of(counter) == shard;
        let batch = Batch {
            shard,
            fence: Fence {
                writer: WriterId::random(),
                kind: FenceKind::Process { incarnation: Incarnation::default() },
                sequence: 1,
                after: 0,
            },
            cells: cells.iter().filter(|cell| of(&cell.counter)).cloned().collect(),
            grid: Arc::clone(grid),
            adds: Adds::Hits,
            witness: None,
        };
        let outcome = store.apply(&batch).await.expect("the store is available");
        assert!(matches!(outcome, ApplyOutcome::Applied(_)), "{outcome:?}");
    }
}

async fn samples(store: &impl Store, counter: &str, width: u32) -> Vec<(u64, u64)> {
    let counter = [name(counter)];
    let read = store.values(Kind::Counts, query(&counter, precision(width), always())).await;
    let reading = read.expect("the store is available").counters.remove(0);
    assert_eq!(reading.unreadable, None);
    reading.samples().map(|Sample { start, count }| (start.as_unix(), count)).collect()
}

async fn sketch(store: &impl Store, counter: &str, width: u32, start: u64) -> Sketch {
    sketch_of(store, counter, Bucket { precision: precision(width), start: unix(start) }).await
}

async fn lifetime(store: &impl Store, counter: &str) -> u64 {
    store.lifetimes(&[name(counter)]).await.expect("the store is available").remove(0).expect("readable")
}

/// Cleans each shard.
async fn clean(store: &impl Store, now: Timestamp, retained: &Precisions) {
    for shard in store.info().shards.iter() {
        while store.clean(shard, now, retained).await.expect("the store is available").more {}
    }
    store.adopt(Shard::default(), None, retained).await.expect("the store is available");
}
