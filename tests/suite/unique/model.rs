//! Compares random operations with a simple model.

use std::collections::HashSet;

use counter_core::MemoryStore;
use counter_core::sketch::Sketch;
use counter_core::unique::store::Included;
use counter_core::unique::{
    AdaptiveUniqueCounter, Distinct, ExcludingCounter, HllUniqueCounter, SetUniqueCounter, UniqueCounter,
    UniqueStore,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tests::RedisServer;

use super::contract::{adaptive, hll, set, visitor};
use crate::stores::without_scripts;
use crate::support::store;

/// This is small enough for random calls of any length to cross it.
const THRESHOLD: u16 = 40;

#[derive(Clone, Debug)]
enum Operation {
    Include(Vec<u32>),
    Exclude(u32),
    Forget,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let number = 0..120_u32;
    let operation = prop_oneof![
        10 => prop::collection::vec(number.clone(), 0..20).prop_map(Operation::Include),
        5 => number.prop_map(Operation::Exclude),
        1 => Just(Operation::Forget),
    ];
    prop::collection::vec(operation, 1..40)
}

/// Expected contents of the three counters, computed from the items.
#[derive(Debug, Default)]
struct Model {
    set: HashSet<u32>,
    hll: Sketch,
    items: HashSet<u32>,
    registers: Option<Sketch>,
}

struct Counters {
    set: SetUniqueCounter,
    hll: HllUniqueCounter,
    adaptive: AdaptiveUniqueCounter,
}

impl Counters {
    fn over(store: &(impl UniqueStore + Clone)) -> Self {
        let [set_of, hll_of, adaptive_of] = ["a", "b", "c"];
        Self {
            set: set(store, set_of),
            hll: hll(store, hll_of),
            adaptive: adaptive(store, adaptive_of, THRESHOLD),
        }
    }

    async fn forget(&self) {
        self.set.forget().await.expect("the store is available");
        self.hll.forget().await.expect("the store is available");
        self.adaptive.forget().await.expect("the store is available");
    }

    async fn include(&self, numbers: &[u32]) -> [Included; 3] {
        let items: Vec<_> = numbers.iter().map(|n| visitor(*n)).collect();
        [
            self.set.include_all(&items).await.expect("the store is available"),
            self.hll.include_all(&items).await.expect("the store is available"),
            self.adaptive.include_all(&items).await.expect("the store is available"),
        ]
    }

    async fn counts(&self) -> [Distinct; 3] {
        [
            self.set.count().await.expect("readable"),
            self.hll.count().await.expect("readable"),
            self.adaptive.count().await.expect("readable"),
        ]
    }
}

impl Model {
    fn include(&mut self, numbers: &[u32]) -> [Included; 3] {
        let new_to = |set: &mut HashSet<u32>| numbers.iter().filter(|n| set.insert(**n)).count() as u64;
        let raised_in =
            |sketch: &mut Sketch| numbers.iter().filter(|n| sketch.insert(visitor(**n))).count() as u64;
        let adaptive = match &mut self.registers {
            Some(sketch) => Included { new: raised_in(sketch), exact: false },
            None => {
                let new = new_to(&mut self.items);
                if self.items.len() > usize::from(THRESHOLD) {
                    let mut sketch = Sketch::new();
                    for n in self.items.drain() {
                        sketch.insert(visitor(n));
                    }
                    self.registers = Some(sketch);
                }
                Included { new, exact: self.registers.is_none() }
            }
        };
        [
            Included { new: new_to(&mut self.set), exact: true },
            Included { new: raised_in(&mut self.hll), exact: false },
            adaptive,
        ]
    }

    fn counts(&self) -> [Distinct; 3] {
        let estimated = |sketch: &Sketch| {
            let items = sketch.estimate();
            Distinct::Estimated { items, standard_error: counter_core::sketch::STANDARD_ERROR * items as f64 }
        };
        let exact = Distinct::Exact(self.items.len() as u64);
        [
            Distinct::Exact(self.set.len() as u64),
            estimated(&self.hll),
            self.registers.as_ref().map_or(exact, estimated),
        ]
    }
}

async fn compare(store: &(impl UniqueStore + Clone), operations: Vec<Operation>) {
    let (counters, mut model) = (Counters::over(store), Model::default());
    counters.forget().await;
    for operation in operations {
        match operation {
            Operation::Include(numbers) => {
                assert_eq!(counters.include(&numbers).await, model.include(&numbers), "{numbers:?}");
            }
            Operation::Exclude(number) => {
                let excluded = counters.set.exclude(visitor(number)).await.expect("the store is available");
                assert_eq!(excluded, model.set.remove(&number), "{number}");
            }
            Operation::Forget => {
                counters.forget().await;
                model = Model::default();
            }
        }
        assert_eq!(counters.counts().await, model.counts());
    }
}

fn check(cases: u32, store: impl Future<Output = impl UniqueStore + Clone>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let store = runtime.block_on(store);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |operations| {
        runtime.block_on(compare(&store, operations));
        Ok(())
    };
    TestRunner::new(config).run(&operations(), run).expect("the store matches the model");
}

#[test]
fn random_operations_in_memory_match_the_model() {
    check(256, async { MemoryStore::new() });
}

#[test]
fn random_operations_on_redis_match_the_model() {
    let server = RedisServer::start();
    check(24, async { store(&server.url()).await });
}

#[test]
fn random_operations_on_redis_without_scripts_match_the_model() {
    let server = without_scripts();
    check(12, async { store(&server.url()).await });
}
