use std::collections::HashMap;

use super::store::{Addition, WindowKey, WindowStore};
use crate::error::{Error, ErrorKind};
use crate::family::operations::measured;

/// Additions merged by key. For each original addition, we remember the position in its merged addition.
#[derive(Debug)]
pub(super) struct Fold {
    /// Merged additions, in order of first appearance.
    pub(super) additions: Vec<Addition>,
    /// For each original addition: the index of the merged addition, and the running sum including this
    /// addition.
    positions: Vec<(usize, u64)>,
}

impl Fold {
    pub(super) fn of(all: impl IntoIterator<Item = Addition>) -> Self {
        let mut indexes: HashMap<WindowKey, usize> = HashMap::new();
        let mut fold = Self { additions: Vec::new(), positions: Vec::new() };
        for Addition { key, amount } in all {
            let index = *indexes.entry(key).or_insert_with_key(|key| {
                fold.additions.push(Addition { key: key.clone(), amount: 0 });
                fold.additions.len() - 1
            });
            let sum = &mut fold.additions[index].amount;
            *sum = sum.saturating_add(amount);
            fold.positions.push((index, *sum));
        }
        fold
    }

    /// Returns the result of each original addition, as if the additions had been sent sequentially.
    pub(super) fn unfold(&self, replies: &[Result<u64, Error>]) -> Vec<Result<u64, Error>> {
        let reply = |(index, sum): &(usize, u64)| match replies.get(*index) {
            Some(Ok(count)) => Ok(count.saturating_sub(self.additions[*index].amount).saturating_add(*sum)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::new(ErrorKind::Unconfirmed).caused_by("the store returned too few results")),
        };
        self.positions.iter().map(reply).collect()
    }
}

/// Sends the merged additions to the store, and returns a result for each original addition.
pub(super) async fn add_folded(store: &dyn WindowStore, fold: &Fold) -> Vec<Result<u64, Error>> {
    let mut replies = Vec::new();
    let added = measured("increment_many", async {
        let added = store.add(&fold.additions).await;
        replies = added.into_iter().map(|reply| reply.map_err(unconfirmed)).collect();
        // The call as a whole fails if any addition fails.
        replies.iter().find_map(|reply| reply.as_ref().err().cloned()).map_or(Ok(()), Err)
    });
    drop(added.await);
    fold.unfold(&replies)
}

/// Converts `Unavailable` to `Unconfirmed`, because the addition may have been counted.
pub(super) fn unconfirmed(error: Error) -> Error {
    if *error.kind() == ErrorKind::Unavailable { error.of_kind(ErrorKind::Unconfirmed) } else { error }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stores::MemoryStore;
    use crate::time::Timestamp;

    fn addition(counter: u8, amount: u64) -> Addition {
        let (start, expiry) = (Timestamp::MIN, Timestamp::MAX);
        let (counter, open) = (format!("a={counter}").into(), start..expiry);
        Addition { key: WindowKey { counter, group: None, width: 60, start, expiry, open }, amount }
    }

    proptest! {
        #[test]
        fn folded_additions_return_the_same_counts_as_single_additions(
            rounds in proptest::collection::vec(proptest::collection::vec((0..4_u8, 1..100_u64), 0..20), 1..5),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let (one, other) = (MemoryStore::new(), MemoryStore::new());
            for round in rounds {
                let all = || round.iter().map(|(counter, amount)| addition(*counter, *amount));
                let fold = Fold::of(all());
                let folded = fold.unfold(&runtime.block_on(one.add(&fold.additions)));
                let all: Vec<_> = all().collect();
                let single = runtime.block_on(other.add(&all));
                let counts = |replies: Vec<Result<u64, Error>>| -> Vec<_> { replies.into_iter().map(Result::ok).collect() };
                prop_assert!(fold.additions.len() <= 4);
                prop_assert_eq!(counts(folded), counts(single));
            }
        }
    }
}
