use std::sync::Arc;

use futures_util::future::join_all;

use super::lane::{Lane, empty};
use crate::error::{Error, ErrorKind};
use crate::family::writer::WriterId;
use crate::time::Grid;
use crate::visits::store::{ApplyOutcome, Store};

/// The maximum position of a source: 2^53, because larger integers are not exact in Lua.
pub(crate) const LARGEST_POSITION: u64 = 1 << 53;

/// Reads the positions of all lanes: those of the shards of a store, and those of a far store.
pub(super) async fn all_positions(lanes: &[Lane], shards: usize) -> Result<Vec<u64>, Error> {
    let Lane { store, writer, grid, .. } = &lanes[0];
    let mut all = positions(&**store, *writer, grid).await?;
    for Lane { store, writer, grid, .. } in &lanes[shards..] {
        all.extend(positions(&**store, *writer, grid).await?);
    }
    Ok(all)
}

/// Reads the position of a source on all shards, in shard order.
pub(crate) async fn positions(
    store: &dyn Store,
    source: WriterId,
    grid: &Arc<Grid>,
) -> Result<Vec<u64>, Error> {
    // We use a position that a source can never reach, so the shards will reply with the actual position. Lua
    // has only even numbers in this range.
    let probe = |shard| empty(source, shard, LARGEST_POSITION + 2, LARGEST_POSITION + 4, grid);
    let probes: Vec<_> = store.info().shards.iter().map(probe).collect();
    let replies = join_all(probes.iter().map(|batch| store.apply(batch))).await;
    let position = |reply: Result<ApplyOutcome, Error>| match reply? {
        ApplyOutcome::SequenceGap { found } => Ok(found.sequence),
        ApplyOutcome::Applied(_) | ApplyOutcome::Conflict { .. } => Err(Error::new(ErrorKind::Rejected)),
    };
    replies.into_iter().map(position).collect()
}
