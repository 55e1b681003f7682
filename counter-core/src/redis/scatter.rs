use futures_util::future::try_join_all;

use super::client::Client;
use crate::error::Error;
use crate::family::future::Answer;
use crate::family::shard::Shard;

/// The items that belong to a shard, with their positions in the input.
#[derive(Debug)]
pub(crate) struct Group<T> {
    pub(crate) shard: Shard,
    pub(crate) items: Vec<T>,
    positions: Vec<usize>,
}

impl Client {
    /// Groups items by shard, based on their names. Empty groups are omitted.
    pub(crate) fn by_shard<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        name: impl Fn(&T) -> &str,
    ) -> Vec<Group<T>> {
        let empty = |shard| Group { shard, items: Vec::new(), positions: Vec::new() };
        let mut groups: Vec<_> = self.shards().iter().map(empty).collect();
        for (position, item) in items.into_iter().enumerate() {
            let group = &mut groups[self.shards().of(name(&item)).index()];
            group.items.push(item);
            group.positions.push(position);
        }
        groups.retain(|group| !group.items.is_empty());
        groups
    }
}

impl<T> Group<T> {
    /// Splits the group into groups of no more than this number of items.
    pub(crate) fn cut(mut self, most: usize) -> Vec<Self> {
        let mut groups = Vec::new();
        while self.items.len() > most {
            let at = self.items.len() - most;
            let (items, positions) = (self.items.split_off(at), self.positions.split_off(at));
            groups.push(Self { items, positions, ..self });
        }
        groups.push(self);
        groups
    }
}

/// Merges the replies for all groups in item order.
pub(crate) fn in_order<T, A>(groups: &[Group<T>], answers: Vec<Vec<A>>) -> Vec<A> {
    let positions = groups.iter().flat_map(|group| &group.positions);
    let mut answers: Vec<_> = positions.zip(answers.into_iter().flatten()).collect();
    answers.sort_unstable_by_key(|(position, _)| **position);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Runs all futures concurrently, and returns the results in the same order, or the first error.
///
/// The futures are boxed, so that `try_join_all` is only compiled for a small number of types instead of for
/// all callers.
pub(crate) fn all_at_once<'a, T: Send + 'a>(
    asked: impl IntoIterator<Item = impl Future<Output = Result<T, Error>> + Send + 'a>,
) -> Answer<'a, Vec<T>> {
    let asked = asked.into_iter().map(|asked| Box::pin(asked) as Answer<'a, T>);
    Box::pin(try_join_all(asked))
}
