use super::Shared;
use super::script::Call;
use crate::grid::SAMPLES;
use crate::{Cleaned, Error, Precisions, Shard, Timestamp};

/// Fields one call touches: about 1 ms of the server's time.
const BUDGET: u32 = 1000;
/// Members one step of the walk looks at, and fields of those that are new to it: 1 ms each.
const STEP: u32 = 1000;
const STEP_FIELDS: u32 = 5000;

pub(super) async fn clean(
    shared: &Shared,
    shard: Shard,
    now: Timestamp,
    kept: &Precisions,
) -> Result<Cleaned, Error> {
    let keys = shared.keys(shard);
    let mut call = Call::new([&keys.known, &keys.due, &keys.scratch]);
    call.number(now);
    call.number(BUDGET);
    call.push(keys.counts());
    retention(&mut call, kept);
    let (samples, counters, more): (u64, u64, u64) = shared.clean.run(&shared.route, call).await?;
    Ok(Cleaned { samples, counters, more: more == 1 })
}

pub(super) async fn adopt(
    shared: &Shared,
    shard: Shard,
    cursor: Option<String>,
    kept: &Precisions,
) -> Result<Option<String>, Error> {
    let keys = shared.keys(shard);
    let mut call = Call::new([&keys.known, &keys.due, &keys.scratch]);
    call.push(cursor.map_or_else(|| "-".to_owned(), |member| format!("({member}")));
    call.number(STEP);
    call.number(STEP_FIELDS);
    call.push(keys.counts());
    retention(&mut call, kept);
    let last: String = shared.adopt.run(&shared.route, call).await?;
    Ok(Some(last).filter(|member| !member.is_empty()))
}

fn retention(call: &mut Call, kept: &Precisions) {
    call.number(SAMPLES);
    for kept in kept.iter() {
        call.number(kept.precision.as_seconds());
        call.number(kept.samples);
    }
}
