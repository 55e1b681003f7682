use std::sync::Arc;

use futures_util::future::join_all;

use super::lane::empty;
use crate::time::Grid;
use crate::visits::{ApplyOutcome, Store};
use crate::writer::WriterId;
use crate::{Error, ErrorKind};

/// The largest position: 2^53, up to which Lua's numbers are exact.
pub(crate) const LARGEST: u64 = 1 << 53;

/// Asks every shard for its position.
pub(crate) async fn positions(
    store: &dyn Store,
    source: WriterId,
    grid: &Arc<Grid>,
) -> Result<Vec<u64>, Error> {
    // No source is ever there, so every shard answers where it is instead. Lua has no odd numbers there.
    let nowhere = |shard| empty(source, shard, LARGEST + 2, LARGEST + 4, grid);
    let questions: Vec<_> = store.shards().iter().map(nowhere).collect();
    let answers = join_all(questions.iter().map(|batch| store.apply(batch))).await;
    let position = |answer: Result<ApplyOutcome, Error>| match answer? {
        ApplyOutcome::SequenceGap { found } => Ok(found.sequence),
        ApplyOutcome::Applied(_) | ApplyOutcome::Conflict { .. } => Err(Error::new(ErrorKind::Refused)),
    };
    answers.into_iter().map(position).collect()
}
