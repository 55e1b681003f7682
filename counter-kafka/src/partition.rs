use counter_core::Timestamp;
use counter_core::source::Source;
use counter_core::visits::Hit;
use tracing::warn;

use crate::Decision;

/// A partition of this member.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) source: Source,
    /// True when everything that the log had was read.
    pub(crate) is_at_end: bool,
    /// True when something was read since the last commit.
    pub(crate) is_dirty: bool,
}

impl Partition {
    pub(crate) const fn new(source: Source) -> Self {
        Self { source, is_at_end: false, is_dirty: false }
    }

    /// Folds the record at an offset, and returns what became of it.
    pub(crate) fn fold(&mut self, offset: u64, decision: Decision, hits: &[Hit]) -> Folded {
        let range = offset..offset + 1;
        let is_full = match decision {
            Decision::NeedsKey(at) => return Folded::NeedsKey(at),
            Decision::Counted(at) if !hits.is_empty() => self.source.record(range, at, hits),
            Decision::Counted(_) => {
                self.source.skip(range, counter_core::visits::Skip::Unmatched);
                false
            }
            Decision::Skipped(skip) => {
                self.source.skip(range, skip);
                false
            }
            Decision::Malformed => {
                self.source.malformed(range);
                let malformed = self.source.ledger().records.malformed;
                // Often enough to be noticed, and never more than 64 times.
                if malformed.is_power_of_two() {
                    warn!(source = %self.source.name(), offset, malformed, "a record is malformed");
                }
                false
            }
        };
        self.is_at_end = false;
        self.is_dirty = true;
        if is_full { Folded::Full } else { Folded::Open }
    }
}

/// The decision about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folded {
    /// It was folded, and there is room for more.
    Open,
    /// It was folded, and it is time to commit.
    Full,
    /// It was not folded: it needs the key of the visitors of an instant.
    NeedsKey(Timestamp),
}
