use futures_util::future::try_join_all;

use super::client::Client;
use crate::error::Error;
use crate::family::future::Answer;
use crate::family::shard::Shard;

/// Some of several items, all of one shard, with their positions among all items.
#[derive(Debug)]
pub(crate) struct Group<T> {
    pub(crate) shard: Shard,
    pub(crate) items: Vec<T>,
    positions: Vec<usize>,
}

impl Client {
    /// Splits items by the shard that each one's name belongs to, into groups that are not empty.
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
    /// Cuts the group into groups of at most this many items.
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

/// Returns the answers of all groups in the order of the items.
pub(crate) fn in_order<T, A>(groups: &[Group<T>], answers: Vec<Vec<A>>) -> Vec<A> {
    let positions = groups.iter().flat_map(|group| &group.positions);
    let mut answers: Vec<_> = positions.zip(answers.into_iter().flatten()).collect();
    answers.sort_unstable_by_key(|(position, _)| **position);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Asks for all of these at once, and returns the answers in the same order, or the first error.
///
/// Each is boxed, so that the machinery of several futures is compiled for a few types of answers and not for each
/// place that asks.
pub(crate) fn all_at_once<'a, T: Send + 'a>(
    asked: impl IntoIterator<Item = impl Future<Output = Result<T, Error>> + Send + 'a>,
) -> Answer<'a, Vec<T>> {
    let asked = asked.into_iter().map(|asked| Box::pin(asked) as Answer<'a, T>);
    Box::pin(try_join_all(asked))
}
