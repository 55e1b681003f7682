//! A batch as a call of `apply.lua`, and its answer.

use std::fmt::Write;

use fred::types::Value;

use super::RedisVisits;
use super::keys::Keys;
use crate::redis::Call;
use crate::visits::{ApplyOutcome, Batch, DropReason, FenceKind, Part, Remark};
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
    call
}

fn precisions(call: &mut Call, set: &Precisions) {
    call.lines(set.iter().map(|kept| (kept.precision.to_string(), kept.samples.get().into())));
}

/// Returns the index of a precision as Lua counts, from 1.
fn place(set: &Precisions, finest: Precision) -> usize {
    1 + set.iter().take_while(|kept| kept.precision < finest).count()
}

/// Reads `c0:type,v3:other,b7:began,`.
pub(super) fn decode(remarks: &str) -> Option<Vec<Remark>> {
    remarks.split_terminator(',').map(remark).collect()
}

fn remark(text: &str) -> Option<Remark> {
    let (part, reason) = text.split_once(':')?;
    let (kind, index) = part.split_at_checked(1)?;
    let index = index.parse().ok()?;
    let part = match kind {
        "b" => return Some(Remark::Began { cell: index }),
        "c" => Part::Cell(index),
        "v" => Part::Visitors(index),
        "i" => Part::Index,
        _ => return None,
    };
    let reason = match reason {
        "type" => DropReason::WrongType,
        "number" => DropReason::NotANumber,
        "range" => DropReason::OutOfRange,
        "ahead" => DropReason::Ahead,
        _ => DropReason::Other,
    };
    Some(Remark::Refused { part, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_read_and_nonsense_is_not() {
        assert_eq!(decode(""), Some(Vec::new()));
        let remarks = vec![
            Remark::Refused { part: Part::Cell(12), reason: DropReason::WrongType },
            Remark::Refused { part: Part::Index, reason: DropReason::Other },
            Remark::Began { cell: 7 },
            Remark::Refused { part: Part::Visitors(3), reason: DropReason::OutOfRange },
        ];
        assert_eq!(decode("c12:type,i0:other,b7:began,v3:range,"), Some(remarks));
        for nonsense in ["c:type", "x1:type", "c1", "é1:type"] {
            assert_eq!(decode(nonsense), None, "{nonsense}");
        }
    }
}
