use std::sync::Arc;

use futures_util::future::join_all;

use super::lane::empty;
use crate::family::writer::WriterId;
use crate::time::Grid;
use crate::visits::{ApplyOutcome, Store};
use crate::{Error, ErrorKind};

/// The maximum position: 2^53, up to which numbers in Lua are exact.
pub(crate) const LARGEST: u64 = 1 << 53;

/// Reads the position of every shard.
pub(crate) async fn positions(
    store: &dyn Store,
    source: WriterId,
    grid: &Arc<Grid>,
) -> Result<Vec<u64>, Error> {
    // A source never reaches this position, so each shard answers with its own. Lua has only even numbers in this range.
    let nowhere = |shard| empty(source, shard, LARGEST + 2, LARGEST + 4, grid);
    let questions: Vec<_> = store.shards().iter().map(nowhere).collect();
    let answers = join_all(questions.iter().map(|batch| store.apply(batch))).await;
    let position = |answer: Result<ApplyOutcome, Error>| match answer? {
        ApplyOutcome::SequenceGap { found } => Ok(found.sequence),
        ApplyOutcome::Applied(_) | ApplyOutcome::Conflict { .. } => Err(Error::new(ErrorKind::Refused)),
    };
    answers.into_iter().map(position).collect()
}
