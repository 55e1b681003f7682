//! A text encoding for remarks, which are stored together with the fence.

use std::collections::HashMap;

use super::batch::{Batch, Part, Remark};
use super::value::Value;
use crate::visits::ledger::DropReason;

/// Encodes remarks, e.g. as `c0:type,v3:other,b7:began,`. Messages are omitted, since our SQL statements have
/// none.
#[cfg(feature = "_sql")]
pub(crate) fn encode(remarks: &[Remark], batch: &Batch) -> String {
    use std::fmt::Write;

    let (numbers, mut text) = (numbers(batch).collect::<Vec<_>>(), String::new());
    for remark in remarks {
        let ((kind, number), reason) = match remark {
            Remark::NewLifetime { cell } => (('b', numbers[*cell].1), "began"),
            Remark::Rejected { part, reason, .. } => {
                let number = match *part {
                    Part::Cell(index) => numbers[index],
                    Part::Index => ('i', 0),
                };
                let reason = match reason {
                    DropReason::WrongType => "type",
                    DropReason::NotANumber => "number",
                    DropReason::OutOfRange => "range",
                    DropReason::Ahead => "ahead",
                    DropReason::Other => "other",
                };
                (number, reason)
            }
        };
        write!(text, "{kind}{number}:{reason},").expect("writing to a string cannot fail");
    }
    text
}

/// Decodes remarks on a batch, e.g. from `c0:type,v3:other Message from the server,b7:began,`. Leaves out remarks on
/// cells that the batch doesn't have: they may refer to a batch of another reader that ends at the same position.
pub(crate) fn decode(remarks: &str, batch: &Batch) -> Option<Vec<Remark>> {
    if remarks.is_empty() {
        return Some(Vec::new());
    }
    let indices = numbers(batch).enumerate().map(|(index, number)| (number, index)).collect();
    let remarks = remarks.split_terminator(',').map(|text| remark(text, &indices));
    remarks.filter(|remark| *remark != Some(None)).map(Option::flatten).collect()
}

/// Returns the letter of the kind of each cell, and its number among the cells of this kind.
fn numbers(batch: &Batch) -> impl Iterator<Item = (char, usize)> {
    let mut next = HashMap::new();
    batch.cells.iter().map(move |cell| {
        let kind = match cell.value {
            Value::Count(_) => 'c',
            Value::Visitors(_) => 'v',
            Value::Distribution(_) => 'd',
        };
        let next = next.entry(kind).or_insert(0);
        *next += 1;
        (kind, *next - 1)
    })
}

/// Decodes a remark. Returns `None` if the text is invalid, or `Some(None)` if the batch doesn't have the cell.
fn remark(text: &str, indices: &HashMap<(char, usize), usize>) -> Option<Option<Remark>> {
    let (part, reason) = text.split_once(':')?;
    let mut number = part.chars();
    let kind = number.next()?;
    let number = number.as_str().parse().ok()?;
    let index = |kind| indices.get(&(kind, number)).copied();
    let part = match kind {
        'b' => return Some(index('c').map(|cell| Remark::NewLifetime { cell })),
        'c' | 'v' | 'd' => index(kind).map(Part::Cell),
        'i' => Some(Part::Index),
        _ => return None,
    };
    let (reason, message) = match reason.split_once(' ') {
        Some((reason, message)) => (reason, Some(message.to_owned())),
        None => (reason, None),
    };
    let reason = match reason {
        "type" => DropReason::WrongType,
        "number" => DropReason::NotANumber,
        "range" => DropReason::OutOfRange,
        "ahead" => DropReason::Ahead,
        _ => DropReason::Other,
    };
    Some(part.map(|part| Remark::Rejected { part, reason, message }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::family::name::CounterName;
    use crate::family::shard::Shard;
    use crate::family::writer::WriterId;
    use crate::sketch::Sketch;
    use crate::time::{Grid, Precision, Timestamp};
    use crate::visits::store::batch::Cell;
    use crate::visits::store::fence::{Fence, FenceKind};

    /// Returns a batch with two cells of each kind.
    fn batch() -> Batch {
        let values = [Value::Count(1), Value::Visitors(Sketch::new()), Value::Distribution(Vec::new())];
        let cell = |value| Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            value,
        };
        let cells = [values.clone(), values].concat().into_iter().map(cell).collect();
        let kind = FenceKind::Source { life: None };
        let fence = Fence { writer: WriterId::of([7; 16]), kind, sequence: 1, after: 0 };
        Batch { cells, ..Batch::empty(Shard::default(), fence, &Arc::new(Grid::default())) }
    }

    #[test]
    fn remarks_round_trip_and_invalid_text_is_rejected() {
        let batch = batch();
        assert_eq!(decode("", &batch), Some(Vec::new()));
        let rejected = |part, reason| Remark::Rejected { part, reason, message: None };
        let remarks = vec![
            rejected(Part::Cell(3), DropReason::WrongType),
            rejected(Part::Index, DropReason::Other),
            Remark::NewLifetime { cell: 3 },
            rejected(Part::Cell(1), DropReason::OutOfRange),
            rejected(Part::Cell(5), DropReason::NotANumber),
        ];
        let text = "c1:type,i0:other,b1:began,v0:range,d1:number,";
        #[cfg(feature = "_sql")]
        assert_eq!(encode(&remarks, &batch), text);
        assert_eq!(decode(text, &batch), Some(remarks));
        let with_message = Remark::Rejected {
            part: Part::Cell(0),
            reason: DropReason::WrongType,
            message: Some("WRONGTYPE a: b".to_owned()),
        };
        let parsed = decode("c0:type WRONGTYPE a: b,b1:began,", &batch);
        assert_eq!(parsed, Some(vec![with_message, Remark::NewLifetime { cell: 3 }]));
        for invalid in ["c:type", "x1:type", "c1", "é1:type", ":type"] {
            assert_eq!(decode(invalid, &batch), None, "{invalid}");
        }
        assert_eq!(decode("c2:type,b2:began,", &batch), Some(Vec::new()));
    }
}
