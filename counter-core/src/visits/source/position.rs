use std::sync::Arc;

use futures_util::future::join_all;

use super::lane::empty;
use crate::error::{Error, ErrorKind};
use crate::family::writer::WriterId;
use crate::time::Grid;
use crate::visits::store::{ApplyOutcome, Store};

/// The maximum position: 2^53, because larger integers are not exact in Lua.
pub(crate) const LARGEST: u64 = 1 << 53;

/// Reads the position of all shards.
pub(crate) async fn positions(
    store: &dyn Store,
    source: WriterId,
    grid: &Arc<Grid>,
) -> Result<Vec<u64>, Error> {
    // We use a position that a source can never reach, so the shards will reply with the actual position. Lua
    // has only even numbers in this range.
    let nowhere = |shard| empty(source, shard, LARGEST + 2, LARGEST + 4, grid);
    let questions: Vec<_> = store.shards().iter().map(nowhere).collect();
    let answers = join_all(questions.iter().map(|batch| store.apply(batch))).await;
    let position = |answer: Result<ApplyOutcome, Error>| match answer? {
        ApplyOutcome::SequenceGap { found } => Ok(found.sequence),
        ApplyOutcome::Applied(_) | ApplyOutcome::Conflict { .. } => Err(Error::new(ErrorKind::Refused)),
    };
    answers.into_iter().map(position).collect()
}
