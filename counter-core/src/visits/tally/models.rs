//! Models of the lock-free code. loom runs each with all interleavings and all results that the memory model allows.
//!
//! The models run the code of the crate, with smaller tables. `tests/tools/models` runs them, and then changes a line at a time
//! to check that a model fails. The cells of `OnceLock` are those of the standard library, so loom does not reorder them.

mod stripes;
mod bins;
mod commits;
mod visitors;
mod in_flight;

use super::presence::Minute;
use super::stripe::{Buckets, ClosedCell, Stripe};
use crate::time::Timestamp;

fn buckets(second: u64) -> Buckets {
    let at = Timestamp::from_unix(second);
    Buckets { at, start: at, visitors: at, visitors_number: second, minute: Minute::NONE }
}

fn take(stripe: &Stripe, counters: impl FnOnce() -> u32) -> Vec<(u32, u64, u64)> {
    let mut cells = Vec::new();
    stripe.take(&mut cells, counters);
    cells.into_iter().map(|ClosedCell { counter, start, count }| (counter, start.as_unix(), count)).collect()
}
