//! Log lines for rejected parts of batches.

use std::collections::HashSet;

use crate::log::unwind::emit;
use crate::time::Kind;
use crate::visits::store::{Batch, Part, Remark};

/// Kinds of values, and list entries (`None`), for which a rejection was already logged, because each is only logged once.
#[derive(Debug, Default)]
pub(super) struct Warned(HashSet<Option<Kind>>);

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
        let cell = match *part {
            Part::Cell(index) => batch.cells.get(index),
            Part::Index => None,
        };
        let (counter, kind) = (cell.map(|cell| &cell.counter), cell.map(|cell| cell.value.kind()));
        let part_name = match kind {
            Some(Kind::Counts) => "a count",
            Some(Kind::Visitors) => "visitors",
            Some(Kind::Distributions) => "distribution bins",
            None => "a list entry",
        };
        if self.0.insert(kind) {
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
