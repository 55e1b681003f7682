use counter_core::source::Source;
use counter_core::visits::{Hit, Skip};
use tracing::warn;

use super::record::Decision;
use crate::rewind::Rewind;

/// A partition of this member.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) source: Source,
    /// True if the log was read to its end.
    pub(crate) is_at_end: bool,
    /// True if records were read since the last commit.
    pub(crate) is_dirty: bool,
    pub(crate) rewind: Rewind,
}

impl Partition {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, is_at_end: false, is_dirty: false, rewind: Rewind::default() }
    }

    /// Adds the record at an offset to the current batch; returns whether the batch is full.
    ///
    /// Must not be called for a record that still needs a key.
    pub(crate) fn add(&mut self, offset: u64, decision: Decision, hits: &[Hit]) -> bool {
        let range = offset..offset + 1;
        self.is_at_end = false;
        self.is_dirty = true;
        match decision {
            Decision::Counted(at) if !hits.is_empty() => return self.source.record(range, at, hits),
            Decision::Counted(_) => self.source.skip(range, Skip::Unmatched),
            Decision::Skipped(skip) => self.source.skip(range, skip),
            Decision::Malformed | Decision::NeedsKey(_) => {
                self.source.malformed(range);
                let malformed = self.source.ledger().records.malformed;
                // Logs at most 64 times.
                if malformed.is_power_of_two() {
                    warn!(source = %self.source.name(), offset, malformed, "a record is malformed");
                }
            }
        }
        false
    }
}
