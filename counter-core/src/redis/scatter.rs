use futures_util::future::try_join_all;

use super::client::Client;
use crate::error::Error;
use crate::family::future::StoreFuture;
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
    pub(crate) fn cut(mut self, max: usize) -> Vec<Self> {
        let mut groups = Vec::new();
        while self.items.len() > max {
            let at = self.items.len() - max;
            let (items, positions) = (self.items.split_off(at), self.positions.split_off(at));
            groups.push(Self { items, positions, ..self });
        }
        groups.push(self);
        groups
    }
}

/// Merges the replies for all groups in item order.
pub(crate) fn in_item_order<T, A>(groups: &[Group<T>], replies: Vec<Vec<A>>) -> Vec<A> {
    let positions = groups.iter().flat_map(|group| &group.positions);
    let mut replies: Vec<_> = positions.zip(replies.into_iter().flatten()).collect();
    replies.sort_unstable_by_key(|(position, _)| **position);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// Runs all futures concurrently, and returns the results in the same order, or the first error.
///
/// The futures are boxed, so that `try_join_all` is only compiled for a small number of types instead of for
/// all callers.
pub(crate) fn try_join_boxed<'a, T: Send + 'a>(
    pending: impl IntoIterator<Item = impl Future<Output = Result<T, Error>> + Send + 'a>,
) -> StoreFuture<'a, Vec<T>> {
    let pending = pending.into_iter().map(|pending| Box::pin(pending) as StoreFuture<'a, T>);
    Box::pin(try_join_all(pending))
}
