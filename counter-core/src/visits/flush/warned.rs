//! Log lines for rejected parts of batches.

use crate::log::unwind::emit;
use crate::visits::store::{Batch, Part, Remark};

/// Kinds of batch parts for which a rejection was already logged, because each kind is only logged once.
#[derive(Debug, Default)]
pub(super) struct Warned {
    cell: bool,
    visitors: bool,
    bins: bool,
    index: bool,
}

impl Warned {
    pub(super) fn warn(&mut self, batch: &Batch, remarks: &[Remark]) {
        // Only the first of a kind is logged, so that it should be one with a message.
        let has_message = |remark: &&Remark| matches!(remark, Remark::Rejected { message: Some(_), .. });
        for remark in remarks.iter().filter(has_message).chain(remarks) {
            self.warn_of(batch, remark);
        }
    }

    fn warn_of(&mut self, batch: &Batch, remark: &Remark) {
        let Remark::Rejected { part, reason, message } = remark else { return };
        let (warned, part_name, counter) = match *part {
            Part::Cell(index) => {
                (&mut self.cell, "a count", batch.cells.get(index).map(|cell| &cell.counter))
            }
            Part::Visitors(index) => {
                (&mut self.visitors, "visitors", batch.sketches.get(index).map(|cell| &cell.counter))
            }
            Part::Bins(index) => {
                (&mut self.bins, "distribution bins", batch.bins.get(index).map(|cell| &cell.counter))
            }
            Part::Index => (&mut self.index, "a list entry", None),
        };
        if !std::mem::replace(warned, true) {
            let counter = counter.map_or("", |name| name);
            // The batch must be retained even if a log subscriber panics.
            emit(|| {
                tracing::error!(
                    ?reason,
                    counter,
                    error = message.as_deref(),
                    "a store key rejected {part_name}; further rejections are only counted in the ledger"
                );
            });
        }
    }
}
