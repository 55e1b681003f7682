//! A batch as a call of `apply.lua`, and its answer.

use std::fmt::Write;

use fred::types::Value;

use super::RedisVisits;
use super::keys::Keys;
use crate::redis::Call;
use crate::visits::remarks::decode;
use crate::visits::{Adds, ApplyOutcome, Batch, FenceKind};
use crate::{Error, ErrorKind, Precision, Precisions, Timestamp};

pub(super) async fn apply(store: &RedisVisits, batch: &Batch) -> Result<ApplyOutcome, Error> {
    let keys = store.keys(batch.shard);
    let fence = keys.fence(batch.fence);
    let call = encode(keys, batch, &fence);
    let sent = Timestamp::now();
    let (word, rest, time): (String, Value, u64) = store.client.run(&store.apply, call).await?;
    store.skew.measure(sent, Timestamp::from_unix(time), Timestamp::now());
    let outcome = match (word.as_str(), rest.as_u64(), rest.as_str()) {
        ("gap", Some(last), _) => Some(ApplyOutcome::SequenceGap { last }),
        ("applied", _, Some(remarks)) => decode(&remarks).map(ApplyOutcome::Applied),
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
        FenceKind::Process => call.push("process"),
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
    // Nearly all cells of a batch are of the same second.
    let groups = || batch.cells.chunk_by(|a, b| (a.start, a.finest) == (b.start, b.finest));
    call.number(groups().count());
    for cells in groups() {
        call.number(cells[0].start);
        call.number(place(&batch.grid.counts, cells[0].finest));
        call.lines(cells.iter().map(|cell| (&*cell.counter, cell.count)));
    }
    let (mut heads, mut values) = (String::new(), Vec::new());
    for cell in &batch.sketches {
        let before = values.len();
        let kind = if cell.travels_dense() {
            values.extend_from_slice(&cell.raised.to_redis());
            'd'
        } else {
            cell.raised.registers().for_each(|register| values.extend_from_slice(&register.element()));
            'e'
        };
        let (finest, size) = (place(&batch.grid.visitors, cell.finest), values.len() - before);
        writeln!(heads, "{}\n{}\n{finest}\n{kind}{size}", cell.counter, cell.start)
            .expect("memory takes everything");
    }
    call.push(heads);
    call.push(values);
    if let Some(set) = batch.grid.distributions.as_ref().filter(|_| !batch.bins.is_empty()) {
        call.push(keys.distributions());
        precisions(&mut call, set);
        let mut bins = String::new();
        for cell in &batch.bins {
            let finest = place(set, cell.finest);
            write!(bins, "{}\n{}\n{finest}\n", cell.counter, cell.start).expect("memory takes everything");
            for (bin, count) in &cell.bins {
                write!(bins, "{} {count} ", bin.number()).expect("memory takes everything");
            }
            bins.push('\n');
        }
        call.push(bins);
    }
    call
}

fn precisions(call: &mut Call, set: &Precisions) {
    call.lines(set.iter().map(|kept| (kept.precision.to_string(), kept.samples.get().into())));
}

/// Returns the index of a precision as Lua counts, from 1.
fn place(set: &Precisions, finest: Precision) -> usize {
    1 + set.iter().take_while(|kept| kept.precision < finest).count()
}
