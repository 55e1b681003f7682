//! Log lines for rejected parts of batches.

use crate::log::unwind::tell;
use crate::visits::store::{Batch, Part, Remark};

/// Parts of the store for which a rejection was already logged.
#[derive(Debug, Default)]
pub(super) struct Warned {
    cell: bool,
    visitors: bool,
    bins: bool,
    index: bool,
}

impl Warned {
    pub(super) fn warn(&mut self, batch: &Batch, remark: &Remark) {
        let Remark::Refused { part, reason } = *remark else { return };
        let (warned, what, counter) = match part {
            Part::Cell(index) => {
                (&mut self.cell, "a count", batch.cells.get(index).map(|cell| &cell.counter))
            }
            Part::Visitors(index) => {
                (&mut self.visitors, "visitors", batch.sketches.get(index).map(|cell| &cell.counter))
            }
            Part::Bins(index) => {
                (&mut self.bins, "bins of distributions", batch.bins.get(index).map(|cell| &cell.counter))
            }
            Part::Index => (&mut self.index, "an entry of its lists", None),
        };
        if !std::mem::replace(warned, true) {
            let counter = counter.map_or("", |name| name);
            // The batch must be retained even if a log subscriber panics.
            tell(|| {
                tracing::error!(
                    ?reason,
                    counter,
                    "a key of the store refused {what}; further refusals are only counted in the ledger"
                );
            });
        }
    }
}
