//! A text encoding for remarks, which are stored together with the fence.

use super::batch::{Part, Remark};
use crate::visits::ledger::DropReason;

/// Encodes remarks, e.g. as `c0:type,v3:other,b7:began,`. Messages are omitted, since our SQL statements have
/// none.
#[cfg(feature = "sql")]
pub(crate) fn encode(remarks: &[Remark]) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    for remark in remarks {
        let (kind, index, reason) = match remark {
            Remark::NewLifetime { cell } => ('b', *cell, "began"),
            Remark::Rejected { part, reason, .. } => {
                let (kind, index) = match *part {
                    Part::Cell(index) => ('c', index),
                    Part::Visitors(index) => ('v', index),
                    Part::Bins(index) => ('d', index),
                    Part::Index => ('i', 0),
                };
                let reason = match reason {
                    DropReason::WrongType => "type",
                    DropReason::NotANumber => "number",
                    DropReason::OutOfRange => "range",
                    DropReason::Ahead => "ahead",
                    DropReason::Other => "other",
                };
                (kind, index, reason)
            }
        };
        write!(text, "{kind}{index}:{reason},").expect("writing to a string cannot fail");
    }
    text
}

/// Decodes remarks, e.g. from `c0:type,v3:other Message from the server,b7:began,`.
pub(crate) fn decode(remarks: &str) -> Option<Vec<Remark>> {
    remarks.split_terminator(',').map(remark).collect()
}

fn remark(text: &str) -> Option<Remark> {
    let (part, reason) = text.split_once(':')?;
    let (kind, index) = part.split_at_checked(1)?;
    let index = index.parse().ok()?;
    let part = match kind {
        "b" => return Some(Remark::NewLifetime { cell: index }),
        "c" => Part::Cell(index),
        "v" => Part::Visitors(index),
        "d" => Part::Bins(index),
        "i" => Part::Index,
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
    Some(Remark::Rejected { part, reason, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_round_trip_and_invalid_text_is_rejected() {
        assert_eq!(decode(""), Some(Vec::new()));
        let rejected = |part, reason| Remark::Rejected { part, reason, message: None };
        let remarks = vec![
            rejected(Part::Cell(12), DropReason::WrongType),
            rejected(Part::Index, DropReason::Other),
            Remark::NewLifetime { cell: 7 },
            rejected(Part::Visitors(3), DropReason::OutOfRange),
            rejected(Part::Bins(5), DropReason::NotANumber),
        ];
        let text = "c12:type,i0:other,b7:began,v3:range,d5:number,";
        #[cfg(feature = "sql")]
        assert_eq!(encode(&remarks), text);
        assert_eq!(decode(text), Some(remarks));
        let with_message = Remark::Rejected {
            part: Part::Cell(1),
            reason: DropReason::WrongType,
            message: Some("WRONGTYPE a: b".to_owned()),
        };
        let parsed = decode("c1:type WRONGTYPE a: b,b7:began,");
        assert_eq!(parsed, Some(vec![with_message, Remark::NewLifetime { cell: 7 }]));
        for invalid in ["c:type", "x1:type", "c1", "é1:type"] {
            assert_eq!(decode(invalid), None, "{invalid}");
        }
    }
}
