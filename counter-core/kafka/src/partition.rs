use counter_core::source::Source;
use counter_core::visits::{Hit, Skip};
use tracing::warn;

use super::record::Decision;
use crate::rewind::Rewind;

/// An assigned partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) source: Source,
    /// True if the log has been read to the end.
    pub(crate) is_at_end: bool,
    /// True if there are uncommitted records.
    pub(crate) is_dirty: bool,
    pub(crate) rewind: Rewind,
}

impl Partition {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, is_at_end: false, is_dirty: false, rewind: Rewind::default() }
    }

    /// Adds the record at this offset to the current batch. Returns `true` if the batch is full.
    ///
    /// Must not be called if the record still needs a key.
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
                // Log at most 64 times.
                if malformed.is_power_of_two() {
                    warn!(source = %self.source.name(), offset, malformed, "malformed record");
                }
            }
        }
        false
    }
}
