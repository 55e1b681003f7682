use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use super::distinct::{Contents, Distinct};
use super::store::{Included, UniqueKey, UniqueKind, UniqueList, UniquePart, UniqueStore};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::sketch::Sketch;

/// Number of counters on a list page.
const PAGE: usize = 1000;

/// The unique counters of a [`MemoryStore`](crate::MemoryStore), by kind and name, e.g. `set:voters`.
#[derive(Debug, Default)]
pub(crate) struct MemoryUnique(Mutex<BTreeMap<String, Contents>>);

impl MemoryUnique {
    fn counters(&self) -> MutexGuard<'_, BTreeMap<String, Contents>> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

impl UniqueStore for MemoryUnique {
    fn include<'a>(&'a self, counter: &'a UniqueKey, items: &'a [Vec<u8>]) -> StoreFuture<'a, Included> {
        Box::pin(async move {
            let mut counters = self.counters();
            let contents = counters.entry(counter.to_string()).or_insert_with(|| empty(counter.kind));
            let mut new = 0;
            for item in items {
                new += u64::from(match contents {
                    Contents::Items(set) => set.insert(item.clone()),
                    Contents::Registers(sketch) => sketch.insert_element(item),
                });
            }
            if let (Contents::Items(set), UniqueKind::Adaptive(threshold)) = (&*contents, counter.kind)
                && set.len() > usize::from(threshold.items())
            {
                let all = std::mem::take(contents);
                *contents = all.union(Contents::Registers(Sketch::new()));
            }
            Ok(Included { new, exact: matches!(contents, Contents::Items(_)) })
        })
    }

    fn exclude<'a>(&'a self, set: &'a CounterName, items: &'a [Vec<u8>]) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let mut counters = self.counters();
            let key = UniqueKey { name: set.clone(), kind: UniqueKind::Set }.to_string();
            let Some(Contents::Items(set)) = counters.get_mut(&key) else { return Ok(0) };
            let excluded = items.iter().filter(|item| set.remove(*item)).count();
            if set.is_empty() {
                counters.remove(&key);
            }
            Ok(excluded as u64)
        })
    }

    fn distinct<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, Distinct> {
        Box::pin(async move {
            let counters = self.counters();
            let contents = counters.get(&counter.to_string());
            Ok(contents.map_or_else(|| empty(counter.kind).count(), Contents::count))
        })
    }

    fn contents<'a>(&'a self, counter: &'a UniqueKey, max: usize) -> StoreFuture<'a, Contents> {
        Box::pin(async move {
            let counters = self.counters();
            match counters.get(&counter.to_string()) {
                Some(Contents::Items(items)) if items.len() > max => {
                    Err(Error::new(ErrorKind::TooManyItems { max: max as u64 }))
                }
                contents => Ok(contents.cloned().unwrap_or_else(|| empty(counter.kind))),
            }
        })
    }

    fn list(&self, cursor: Option<Vec<u8>>) -> StoreFuture<'_, UniqueList> {
        Box::pin(async move {
            let last = String::from_utf8(cursor.unwrap_or_default()).unwrap_or_default();
            let counters = self.counters();
            let after = (Bound::Excluded(last), Bound::Unbounded);
            let keys: Vec<_> = counters.range::<String, _>(after).map(|(key, _)| key).take(PAGE).collect();
            let next = (keys.len() == PAGE).then(|| keys[PAGE - 1].clone().into_bytes());
            Ok(UniqueList {
                counters: keys.into_iter().filter_map(|key| UniqueKey::parse(key)).collect(),
                next,
            })
        })
    }

    fn part<'a>(&'a self, counter: &'a UniqueKey, _: Option<Vec<u8>>) -> StoreFuture<'a, UniquePart> {
        // Returned as a single part, because the items are in memory anyway.
        Box::pin(
            async move { Ok(UniquePart { contents: self.contents(counter, usize::MAX).await?, next: None }) },
        )
    }

    fn merge_registers<'a>(&'a self, counter: &'a UniqueKey, sketch: &'a Sketch) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            if counter.kind == UniqueKind::Set {
                return Err(Error::new(ErrorKind::Rejected).caused_by("a set doesn't have registers"));
            }
            if sketch.is_empty() {
                return Ok(());
            }
            let mut counters = self.counters();
            let contents = counters.entry(counter.to_string()).or_default();
            *contents = std::mem::take(contents).union(Contents::Registers(sketch.clone()));
            Ok(())
        })
    }

    fn remove<'a>(&'a self, counter: &'a UniqueKey) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.counters().remove(&counter.to_string());
            Ok(())
        })
    }
}

fn empty(kind: UniqueKind) -> Contents {
    match kind {
        UniqueKind::Set | UniqueKind::Adaptive(_) => Contents::Items(HashSet::new()),
        UniqueKind::Sketch => Contents::Registers(Sketch::new()),
    }
}
