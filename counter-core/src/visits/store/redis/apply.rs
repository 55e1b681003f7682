//! Encodes a batch as a call of `apply.lua`, and decodes the reply.

use super::RedisVisits;
use super::keys::Keys;
use crate::error::{Error, ErrorKind};
use crate::family::writer::WriterId;
use crate::redis::Call;
use crate::time::{Precision, Precisions, Timestamp};
use crate::visits::store::batch::{Adds, ApplyOutcome, Batch, travels_dense};
use crate::visits::store::fence::{FenceKind, Witness};
use crate::visits::store::remarks::decode;

pub(crate) async fn apply(store: &RedisVisits, batch: &Batch) -> Result<ApplyOutcome, Error> {
    let keys = store.keys(batch.shard);
    let fence = keys.fence(batch.fence);
    let call = encode(keys, batch, &fence);
    let sent = Timestamp::now();
    let (status, rest, time): (String, String, u64) = store.client.run(&store.apply, call).await?;
    store.skew.measure(sent, Timestamp::from_unix(time), Timestamp::now());
    let found = || rest.parse().ok();
    let outcome = match &*status {
        "gap" => found().map(|found| ApplyOutcome::SequenceGap { found }),
        "conflict" => found().map(|found| ApplyOutcome::Conflict { found }),
        "applied" => decode(&rest, batch).map(ApplyOutcome::Applied),
        _ => None,
    };
    outcome.ok_or_else(|| Error::new(ErrorKind::Malformed { key: fence }))
}

fn encode(keys: &Keys, batch: &Batch, fence: &str) -> Call {
    let mut call = Call::new([
        fence,
        &keys.known,
        &keys.due,
        &keys.scratch,
        &keys.total,
        &keys.writers,
        &keys.forgotten,
        &keys.sources,
        &keys.sources_due,
    ]);
    call.number(batch.fence.sequence);
    call.number(batch.fence.after);
    call.number(batch.fence.writer);
    match batch.fence.kind {
        FenceKind::Process { incarnation } => {
            call.line(&incarnation.to_string());
            if batch.fence.is_opening() {
                encode_opening(&mut call, batch.witness.as_ref());
            }
            call.end();
        }
        FenceKind::Source { life: None } => call.push("ever"),
        FenceKind::Source { life: Some(life) } => call.number(life.as_secs()),
    }
    call.push(match batch.adds {
        Adds::Hits => "hits",
        Adds::Samples => "samples",
        Adds::Lifetimes => "lifetimes",
    });
    call.push(keys.counts());
    call.push(keys.uniques());
    precisions(&mut call, &batch.grid.counts);
    precisions(&mut call, &batch.grid.visitors);
    counts(&mut call, batch);
    visitors(&mut call, batch);
    distributions(&mut call, keys, batch);
    call
}

fn counts(call: &mut Call, batch: &Batch) {
    // The counts of a batch are mostly from the same second.
    let counts: Vec<_> = batch.counts().map(|(_, cell, count)| (cell, count)).collect();
    let groups = || counts.chunk_by(|(a, _), (b, _)| (a.start, a.finest) == (b.start, b.finest));
    call.number(groups().count());
    for counts in groups() {
        let first = counts[0].0;
        call.number(first.start);
        call.number(lua_index(&batch.grid.counts, first.finest));
        for (cell, count) in counts {
            call.line(&cell.counter);
            call.digits_line(*count);
        }
        call.end();
    }
}

fn visitors(call: &mut Call, batch: &Batch) {
    let mut values = Vec::with_capacity(8 * batch.visitors().count());
    for (_, cell, raised) in batch.visitors() {
        let before = values.len();
        let kind = if travels_dense(raised) {
            values.extend_from_slice(&raised.to_redis());
            b"d"
        } else {
            raised.registers().for_each(|register| values.extend_from_slice(&register.element()));
            b"e"
        };
        call.line(&cell.counter);
        call.digits_line(cell.start.as_unix());
        call.digits_line(lua_index(&batch.grid.visitors, cell.finest));
        call.part(kind);
        call.digits_line((values.len() - before) as u64);
    }
    call.end();
    call.push(values);
}

fn distributions(call: &mut Call, keys: &Keys, batch: &Batch) {
    let has_some = batch.distributions().next().is_some();
    if let Some(set) = batch.grid.distributions.as_ref().filter(|_| has_some) {
        call.push(keys.distributions());
        precisions(call, set);
        for (_, cell, bins) in batch.distributions() {
            call.line(&cell.counter);
            call.digits_line(cell.start.as_unix());
            call.digits_line(lua_index(set, cell.finest));
            for (bin, count) in bins {
                call.digits_part(bin.number().into());
                call.part(b" ");
                call.digits_part(*count);
                call.part(b" ");
            }
            call.part(b"\n");
        }
        call.end();
    }
}

/// Appends the lines of a batch that creates the fence: a random mark, which is stored unless the store has a
/// mark, and the expected witness. The store rejects the batch if its witness differs.
fn encode_opening(call: &mut Call, witness: Option<&Witness>) {
    call.line(&WriterId::random().to_string());
    if let Some(witness) = witness {
        call.line(if witness.listed { "listed" } else { "" });
        call.line(witness.data.as_deref().unwrap_or_default());
        call.line(witness.writers.as_deref().unwrap_or_default());
    }
}

fn precisions(call: &mut Call, set: &Precisions) {
    for retention in set.iter() {
        call.line(&retention.precision.to_string());
        call.digits_line(retention.samples.get().into());
    }
    call.end();
}

/// Returns the 1-based index of a precision in a set, for the Lua script.
fn lua_index(set: &Precisions, finest: Precision) -> u64 {
    1 + set.iter().take_while(|retention| retention.precision < finest).count() as u64
}
