//! Compares random sequences of operations and faults with a simple map.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::{Entities, EntityCache, EntityDatabase, EntityId};
use counter_core::unstable::SqliteDatabase;
use proptest::prelude::*;

use super::Post;
use super::stand::{Frail, Gated};

#[derive(Clone, Debug)]
enum Step {
    /// Increment by one of the two instances.
    Increment {
        instance: usize,
        id: u64,
        by: i64,
    },
    /// Increment that is applied, but the reply is lost.
    Unanswered {
        instance: usize,
        id: u64,
        by: i64,
    },
    Read {
        instance: usize,
        ids: Vec<u64>,
    },
    Add {
        id: u64,
        by: i64,
    },
    Flush {
        lost: bool,
    },
    Evict {
        id: u64,
    },
    /// Switches the cache of an instance between reachable, unreachable and mute (requests are processed, but
    /// replies are lost).
    Cache {
        instance: usize,
        unreachable: bool,
        mute: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (instance, id, by) = (0..2_usize, 0..4_u64, -5..50_i64);
    prop_oneof![
        4 => (instance.clone(), id.clone(), by.clone()).prop_map(|(instance, id, by)| Step::Increment { instance, id, by }),
        1 => (instance.clone(), id.clone(), by.clone()).prop_map(|(instance, id, by)| Step::Unanswered { instance, id, by }),
        5 => (instance.clone(), prop::collection::vec(id.clone(), 0..5)).prop_map(|(instance, ids)| Step::Read { instance, ids }),
        2 => (id.clone(), by).prop_map(|(id, by)| Step::Add { id, by }),
        2 => any::<bool>().prop_map(|lost| Step::Flush { lost }),
        1 => id.prop_map(|id| Step::Evict { id }),
        1 => (instance, any::<bool>(), any::<bool>()).prop_map(|(instance, unreachable, mute)| Step::Cache { instance, unreachable, mute }),
    ]
}

/// The current counts, previous counts which could be found in a stale copy, and pending additions.
#[derive(Default)]
struct Model {
    now: BTreeMap<u64, i64>,
    previous: BTreeMap<u64, BTreeSet<i64>>,
    waiting: BTreeMap<u64, i64>,
    /// Taken from the pending additions, and possibly written.
    outgoing: Option<BTreeMap<u64, i64>>,
}

impl Model {
    fn now(&self, id: u64) -> i64 {
        self.now.get(&id).copied().unwrap_or_default()
    }

    fn add(&mut self, id: u64, by: i64) {
        let now = self.now(id);
        self.previous.entry(id).or_default().insert(now);
        *self.now.entry(id).or_default() += by;
    }
}

async fn run(steps: Vec<Step>) {
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("enough memory"));
    let memory = MemoryStore::new();
    let caches = [0, 1].map(|_| Frail::new(memory.clone()));
    let posts = caches.clone().map(|cache| Entities::<Post, _>::new(database.clone(), cache));
    let (additions, mut flusher) = posts[0].write_behind(100);
    let mut model = Model::default();
    let mut has_failures = false;
    for step in steps {
        match step {
            Step::Increment { instance, id, by } => {
                let now = posts[instance].increment(id, Post::Likes, by).await.expect("it counts");
                model.add(id, by);
                assert_eq!(now, model.now(id));
            }
            Step::Unanswered { instance, id, by } => {
                database.gates.lost.store(1, Ordering::SeqCst);
                posts[instance].increment(id, Post::Likes, by).await.expect_err("the reply is lost");
                model.add(id, by);
                has_failures = true;
            }
            Step::Read { instance, ids } => {
                let asked: Vec<_> = ids.iter().map(|id| EntityId::from(*id)).collect();
                let counts = posts[instance].counts(&asked).await.expect("readable");
                for (id, counts) in ids.iter().zip(counts) {
                    let (read, now) = (counts.of(Post::Likes), model.now(*id));
                    // The other instance may owe the cache an update, which can't be seen from this instance.
                    let previous = has_failures
                        && model.previous.get(id).is_some_and(|previous| previous.contains(&read));
                    assert!(
                        read == now || previous,
                        "{id}: {read}, and is {now}, and was {:?}",
                        model.previous.get(id)
                    );
                }
            }
            Step::Add { id, by } => {
                additions.add(id, Post::Likes, by).expect("a free place");
                *model.waiting.entry(id).or_default() += by;
            }
            Step::Flush { lost } => {
                let fresh = model.outgoing.is_none();
                if fresh && model.waiting.is_empty() {
                    continue;
                }
                database.gates.lost.store(u64::from(lost), Ordering::SeqCst);
                let flushed = flusher.flush().await;
                assert_eq!(flushed.is_err(), lost);
                database.gates.lost.store(0, Ordering::SeqCst);
                has_failures |= lost;
                // The first attempt is written even if the reply is lost.
                if fresh {
                    let outgoing = std::mem::take(&mut model.waiting);
                    outgoing.iter().for_each(|(id, by)| model.add(*id, *by));
                    model.outgoing = Some(outgoing);
                }
                if !lost {
                    model.outgoing = None;
                    // A flush that resends an old batch also sends another batch.
                    if !fresh {
                        let rest = std::mem::take(&mut model.waiting);
                        rest.iter().for_each(|(id, by)| model.add(*id, *by));
                    }
                }
            }
            Step::Evict { id } => memory.invalidate("post", &[id.into()]).await.expect("memory"),
            Step::Cache { instance, unreachable, mute } => {
                caches[instance].set_unreachable(unreachable);
                caches[instance].set_mute(mute);
                has_failures |= unreachable || mute;
            }
        }
    }
    for cache in &caches {
        cache.set_unreachable(false);
        cache.set_mute(false);
    }
    flusher.flush().await.expect("the database accepts it");
    flusher.flush().await.expect("the database accepts it");
    std::mem::take(&mut model.waiting).iter().for_each(|(id, by)| model.add(*id, *by));
    assert_eq!(additions.ledger().pending, 0);
    assert_converged(&posts, &database, &model.now).await;
}

/// Checks that cache, database and model agree when there are no more operations.
async fn assert_converged(
    posts: &[Entities<Post, Gated<SqliteDatabase>>; 2],
    database: &Gated<SqliteDatabase>,
    model: &BTreeMap<u64, i64>,
) {
    let now = |id: &EntityId| model.get(&id.parse().expect("a number")).copied().unwrap_or_default();
    let source = async |field: Post, ids: Vec<EntityId>| {
        let count = |id: &EntityId| if field == Post::Likes { now(id) } else { 0 };
        Ok::<_, std::io::Error>(ids.iter().map(|id| (*id, count(id))).collect::<HashMap<_, _>>())
    };
    for posts in posts {
        let drift = posts.reconcile(&source, Duration::ZERO).await.expect("readable");
        assert_eq!(drift.corrected, 0, "the database is already correct");
    }
    for id in (0..4).map(EntityId::from) {
        let rows = database.read("post", &[id], &["likes"]).await.expect("readable");
        assert_eq!(rows.first().map(|row| row.row.value).unwrap_or_default(), now(&id));
        for posts in posts {
            assert_eq!(posts.counts_of(id).await.expect("readable").of(Post::Likes), now(&id));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn reads_are_serializable_and_all_copies_converge(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(run(steps));
    }
}
