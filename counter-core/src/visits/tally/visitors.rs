//! Visitors of counters, from the ring of a thread to the registers of open buckets.

mod ring;
mod ranks;
mod recent;
mod registers;

#[cfg(all(test, counter_loom))]
pub(super) use ranks::Busy;
pub(super) use recent::Recent;
pub(super) use registers::OpenBuckets;
pub(super) use ring::{MAX_CHUNK, Ring, Visit};
