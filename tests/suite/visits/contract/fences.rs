//! Two batches with the same writer and sequence must never be confused.

use counter_core::stores::{Shard, WriterId};
use counter_core::visits::store::{ApplyOutcome, Batch, Fence, StoredFence, Witness, Write};
use counter_core::{RedisStore, Store};
use tests::RedisServer;

use super::{T, batch, cell, cut_by};
use crate::random::Random;
use crate::stores;
use crate::support::name;

stores::on! {
    [memory redis redis_without_scripts sqlite postgres mariadb]
    {
        a_batch_is_acknowledged_only_if_its_contents_are_stored
    }
}

/// A process that cuts batches for a writer shared with another process, because this process started from a
/// copied spool.
#[derive(Debug)]
struct Cutter {
    writer: WriterId,
    incarnation: u64,
    /// Sequence of the latest acknowledged batch.
    last: u64,
    is_refused: bool,
}

impl Cutter {
    fn of(writer: WriterId, incarnation: u64, last: u64) -> Self {
        Self { writer, incarnation, last, is_refused: false }
    }

    /// Returns the batch with this sequence. The contents are unique to the batch.
    fn cut(&self, sequence: u64) -> Batch {
        let cells = vec![cell(&self.counter(sequence), T, 1, 1)];
        cut_by(self.incarnation, batch(self.writer, sequence, cells))
    }

    fn counter(&self, sequence: u64) -> String {
        format!("{}/{}/{sequence}", self.writer, self.incarnation)
    }
}

async fn lifetime(store: &impl Store, counter: &str) -> u64 {
    let lifetimes = store.lifetimes(&[name(counter)]).await.expect("the store is available");
    lifetimes.into_iter().next().expect("an answer").expect("readable")
}

async fn apply(store: &impl Store, batch: &Batch) -> ApplyOutcome {
    store.apply(batch).await.expect("the store is available")
}

async fn a_batch_is_acknowledged_only_if_its_contents_are_stored(store: impl Store + Clone) {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    for _ in 0..6 {
        let writer = WriterId::random();
        let mut cutters = vec![Cutter::of(writer, 1, 0)];
        // Sent batches as cutter, sequence and acknowledgement (whether any attempt was acknowledged).
        let mut sent: Vec<(usize, u64, bool)> = Vec::new();
        for step in 0..20 {
            if step == 5 {
                let last = random.among(0..cutters[0].last + 1);
                cutters.push(Cutter::of(writer, 2, last));
            }
            let visitor_id = usize::try_from(random.among(0..cutters.len() as u64)).expect("one of two");
            let is_late = !sent.is_empty() && random.among(0..3) == 0;
            let at = match is_late {
                true => usize::try_from(random.among(0..sent.len() as u64)).expect("one that was sent"),
                false if cutters[visitor_id].is_refused => continue,
                false => {
                    let next = (visitor_id, cutters[visitor_id].last + 1);
                    let known =
                        sent.iter().position(|(visitor_id, sequence, _)| (*visitor_id, *sequence) == next);
                    known.unwrap_or_else(|| {
                        sent.push((next.0, next.1, false));
                        sent.len() - 1
                    })
                }
            };
            let (visitor_id, sequence, was_acknowledged) = sent[at];
            let outcome = apply(&store, &cutters[visitor_id].cut(sequence)).await;
            let is_acknowledged = matches!(outcome, ApplyOutcome::Applied(_));
            let cutter = &mut cutters[visitor_id];
            let count = lifetime(&store, &cutter.counter(sequence)).await;
            let expected = u64::from(is_acknowledged || was_acknowledged);
            assert_eq!(count, expected, "seed {seed}: {cutter:?}, batch {sequence}: {outcome:?}");
            sent[at].2 |= is_acknowledged;
            // A quarter of the replies are lost.
            if sequence == cutter.last + 1 && random.among(0..4) > 0 {
                cutter.last += u64::from(is_acknowledged);
                cutter.is_refused |= matches!(outcome, ApplyOutcome::Conflict { .. });
            }
        }
    }
}

#[tokio::test]
async fn a_conflicting_batch_is_not_acknowledged_after_fence_eviction() {
    evict_during_conflict(stores::redis().await).await;
    evict_during_conflict(stores::redis_without_scripts().await).await;
}

async fn evict_during_conflict((server, store): (RedisServer, RedisStore)) {
    let evict = || {
        for fence in server.strings(&["KEYS", "access:fence:*"]) {
            server.command(&["DEL", &fence]);
        }
    };
    let writer = WriterId::random();
    let [one, other] = [1, 2].map(|incarnation| Cutter::of(writer, incarnation, 1));
    let counts = async || {
        let batches = [(&one, 1), (&other, 2), (&one, 2), (&other, 3)];
        let mut counts = Vec::new();
        for (cutter, sequence) in batches {
            counts.push(lifetime(&store, &cutter.counter(sequence)).await);
        }
        counts
    };
    let opening = |cutter: &Cutter, sequence, witness: Option<Witness>| {
        let empty = cut_by(cutter.incarnation, batch(writer, sequence, Vec::new()));
        Batch { fence: Fence { after: 0, ..empty.fence }, witness, ..empty }
    };
    let is_applied = async |batch: &Batch| matches!(apply(&store, batch).await, ApplyOutcome::Applied(_));
    assert!(is_applied(&one.cut(1)).await && is_applied(&other.cut(2)).await);
    assert!(matches!(apply(&store, &one.cut(2)).await, ApplyOutcome::Conflict { .. }));

    // Without a fence, a batch must not be applied or acknowledged.
    evict();
    for batch in [one.cut(2), other.cut(2), other.cut(3)] {
        let found = StoredFence::default();
        assert_eq!(apply(&store, &batch).await, ApplyOutcome::SequenceGap { found });
    }
    assert_eq!(counts().await, [1, 1, 0, 0]);

    // If the process with the stored batch recreates the fence, the other batch stays in conflict.
    let witness = store.witness(Shard::default(), writer).await.expect("the store is available");
    assert!(witness.as_ref().is_some_and(|witness| witness.listed), "{witness:?}");
    assert!(is_applied(&opening(&other, 2, witness.clone())).await);
    assert!(matches!(apply(&store, &one.cut(2)).await, ApplyOutcome::Conflict { .. }));
    assert!(is_applied(&other.cut(3)).await);
    assert_eq!(counts().await, [1, 1, 0, 1]);

    // If the other process recreates the fence, this batch is applied, and the stored batch is not affected.
    evict();
    assert!(is_applied(&opening(&one, 1, witness)).await);
    assert!(is_applied(&one.cut(2)).await);
    assert!(matches!(apply(&store, &other.cut(2)).await, ApplyOutcome::Conflict { .. }));
    assert_eq!(counts().await, [1, 1, 1, 1]);
}
