use std::collections::HashSet;

use super::MemoryStore;
use crate::store::{Included, UniqueKey, UniqueKind, UniqueStore};
use crate::{Contents, CounterName, Distinct, Error, ErrorKind, Sketch};

impl UniqueStore for MemoryStore {
    async fn include(&self, counter: &UniqueKey, items: &[Vec<u8>]) -> Result<Included, Error> {
        let kept = &mut *self.kept();
        let contents = kept.uniques.entry(counter.to_string()).or_insert_with(|| empty(counter.kind));
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
    }

    async fn exclude(&self, set: &CounterName, items: &[Vec<u8>]) -> Result<u64, Error> {
        let kept = &mut *self.kept();
        let key = UniqueKey { name: set.clone(), kind: UniqueKind::Set }.to_string();
        let Some(Contents::Items(set)) = kept.uniques.get_mut(&key) else { return Ok(0) };
        let excluded = items.iter().filter(|item| set.remove(*item)).count();
        if set.is_empty() {
            kept.uniques.remove(&key);
        }
        Ok(excluded as u64)
    }

    async fn distinct(&self, counter: &UniqueKey) -> Result<Distinct, Error> {
        let kept = self.kept();
        let contents = kept.uniques.get(&counter.to_string());
        Ok(contents.map_or_else(|| empty(counter.kind).count(), Contents::count))
    }

    async fn contents(&self, counter: &UniqueKey, most: usize) -> Result<Contents, Error> {
        let kept = self.kept();
        match kept.uniques.get(&counter.to_string()) {
            Some(Contents::Items(items)) if items.len() > most => {
                Err(Error::new(ErrorKind::TooManyItems { most: most as u64 }))
            }
            contents => Ok(contents.cloned().unwrap_or_else(|| empty(counter.kind))),
        }
    }

    async fn absorb(&self, counter: &UniqueKey, sketch: &Sketch) -> Result<(), Error> {
        if counter.kind == UniqueKind::Set {
            return Err(Error::new(ErrorKind::Refused).caused_by("a set has items and no registers"));
        }
        if sketch.is_empty() {
            return Ok(());
        }
        let kept = &mut *self.kept();
        let contents = kept.uniques.entry(counter.to_string()).or_default();
        *contents = std::mem::take(contents).union(Contents::Registers(sketch.clone()));
        Ok(())
    }

    async fn remove(&self, counter: &UniqueKey) -> Result<(), Error> {
        self.kept().uniques.remove(&counter.to_string());
        Ok(())
    }
}

fn empty(kind: UniqueKind) -> Contents {
    match kind {
        UniqueKind::Set | UniqueKind::Adaptive(_) => Contents::Items(HashSet::new()),
        UniqueKind::Sketch => Contents::Registers(Sketch::new()),
    }
}
