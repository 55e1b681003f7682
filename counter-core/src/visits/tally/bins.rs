//! Bins of distributions, from the thread that counts them to the sums of the process.

mod bin_table;
mod thread_bins;
mod bin_sums;

pub(super) use bin_sums::BinSums;
pub(super) use bin_table::{BinKey, BinSlot, BinTable};
pub(super) use thread_bins::ThreadBins;
