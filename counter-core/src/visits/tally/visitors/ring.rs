//! Visitors of a thread's hits, on the way to the registers of their buckets.
//!
//! The registers of many counters do not fit into the cache, so that a request would stall on memory to raise
//! them. Instead, it pushes visitors into a ring, and folding raises a batch of registers with overlapping
//! loads.

use crate::sketch::Register;
use crate::time::Timestamp;
use crate::visits::tally::single_writer::SingleWriter;

/// A ring with a single writer, the thread of the stripe, and a single reader at a time, the holder of the
/// backlog lock.
#[derive(Debug)]
pub(crate) struct Ring {
    entries: Box<[SingleWriter; ENTRIES]>,
    /// Number of entries written so far.
    head: SingleWriter,
    /// Bucket of the last entry written. Only the writer uses this.
    bucket: SingleWriter,
    /// Number of entries read so far.
    tail: SingleWriter,
    /// Bucket of the last entry read. Only the reader uses this.
    read_bucket: SingleWriter,
}

/// Number of entries: 16 KB.
const ENTRIES: usize = if cfg!(counter_loom) { 4 } else { 2048 };

/// At this number of entries, the thread will try to drain it.
const DRAIN_THRESHOLD: u64 = ENTRIES as u64 / 2;

/// Initial bucket, before the first entry.
const NO_BUCKET: u64 = u64::MAX;

impl Default for Ring {
    fn default() -> Self {
        Self {
            entries: Box::new(std::array::from_fn(|_| SingleWriter::default())),
            head: SingleWriter::default(),
            bucket: SingleWriter::new(NO_BUCKET),
            tail: SingleWriter::default(),
            read_bucket: SingleWriter::new(NO_BUCKET),
        }
    }
}

impl Ring {
    /// Adds a visitor to a bucket, as the register to raise. Returns `false` if the ring is full.
    #[inline]
    pub(crate) fn push(&self, counter: u32, bucket: Timestamp, register: Register) -> bool {
        let mut head = self.head.get();
        // Pairs with the store in `drain`, which has read the entries to overwrite. We might need an additional
        // entry for the bucket.
        if head - self.tail.load_acquire() >= ENTRIES as u64 - 1 {
            return false;
        }
        if self.bucket.get() != bucket.as_unix() {
            self.bucket.set(bucket.as_unix());
            self.entries[place(head)].set(of_bucket(bucket));
            head += 1;
        }
        self.entries[place(head)].set(Visit::new(counter, register).0);
        // Pairs with the load in `drain`, so that it sees the entries, and the hit of this visitor.
        self.head.store_release(head + 1);
        true
    }

    /// Returns `true` if the caller should [`drain`](Self::drain) the ring.
    #[inline]
    pub(crate) fn should_drain(&self) -> bool {
        self.head.get() - self.tail.get() >= DRAIN_THRESHOLD
    }

    /// Takes all visitors, in chunks of the same bucket.
    pub(crate) fn drain(&self, mut each: impl FnMut(Timestamp, &[Visit])) {
        let (head, tail) = (self.head.load_acquire(), self.tail.get());
        let (mut visits, mut count) = ([Visit(0); MAX_CHUNK], 0);
        let mut each = |visits: &[Visit]| {
            if !visits.is_empty() {
                each(Timestamp::from_unix(self.read_bucket.get()), visits);
            }
        };
        for at in tail..head {
            let entry = self.entries[place(at)].get();
            if is_bucket(entry) {
                each(&visits[..count]);
                count = 0;
                self.read_bucket.set(bucket_of(entry));
                continue;
            }
            visits[count] = Visit(entry);
            count += 1;
            if count == MAX_CHUNK {
                each(&visits);
                count = 0;
            }
        }
        each(&visits[..count]);
        // Pairs with the load in `push`, so that an entry is read before it is overwritten.
        self.tail.store_release(head);
    }
}

/// Maximum number of visits in a chunk.
pub(crate) const MAX_CHUNK: usize = 64;

/// A visitor of a counter, as the register to raise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Visit(u64);

impl Visit {
    #[inline]
    pub(crate) fn new(counter: u32, Register { index, rank }: Register) -> Self {
        Self(u64::from(counter) << (INDEX_BITS + RANK_BITS) | u64::from(index) << RANK_BITS | u64::from(rank))
    }

    /// Returns a visit to a different counter by the same visitor.
    pub(crate) fn on(self, counter: u32) -> Self {
        Self::new(counter, self.register())
    }

    #[allow(clippy::cast_possible_truncation, reason = "a counter has 32 bits")]
    pub(crate) const fn counter(self) -> u32 {
        (self.0 >> (INDEX_BITS + RANK_BITS)) as u32
    }

    #[allow(clippy::cast_possible_truncation, reason = "parts are truncated to their widths")]
    pub(crate) const fn register(self) -> Register {
        Register { index: (self.0 >> RANK_BITS) as u16, rank: self.0 as u8 }
    }
}

/// The lowest eight bits of an entry are either a rank, which is never 0, or 0 if the entry is a bucket.
const RANK_BITS: u32 = 8;

const INDEX_BITS: u32 = 16;

fn of_bucket(bucket: Timestamp) -> u64 {
    bucket.as_unix() << RANK_BITS
}

const fn is_bucket(entry: u64) -> bool {
    entry.trailing_zeros() >= RANK_BITS
}

const fn bucket_of(entry: u64) -> u64 {
    entry >> RANK_BITS
}

#[inline]
fn place(at: u64) -> usize {
    // A `usize` might be shorter than 64 bits, but not shorter than the mask.
    #[allow(clippy::cast_possible_truncation, reason = "masked")]
    let place = at as usize;
    place % ENTRIES
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn all(bucket: Timestamp, visits: &[Visit]) -> Vec<(u32, Timestamp, Register)> {
        assert!(!visits.is_empty());
        visits.iter().map(|visit| (visit.counter(), bucket, visit.register())).collect()
    }

    #[test]
    fn entries_are_drained_once_in_order_during_concurrent_writes() {
        let ring = Ring::default();
        let of = |n: u32| {
            let index = u16::try_from(n % 16_384).expect("14 bits");
            (n, Timestamp::from_unix(u64::from(n / 100)), Register { index, rank: 1 + (n % 51) as u8 })
        };
        let drained = RefCell::new(Vec::new());
        let drain = || ring.drain(|bucket, visits| drained.borrow_mut().extend(all(bucket, visits)));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..100_000 {
                    let (counter, bucket, register) = of(n);
                    while !ring.push(counter, bucket, register) {
                        std::thread::yield_now();
                    }
                }
            });
            while !writer.is_finished() {
                drain();
            }
        });
        drain();
        assert!(drained.into_inner().into_iter().eq((0..100_000).map(of)));
    }

    #[test]
    fn the_maximum_values_fit_into_an_entry() {
        let ring = Ring::default();
        let largest = (u32::MAX, Timestamp::MAX, Register { index: 16_383, rank: 51 });
        assert!(ring.push(largest.0, largest.1, largest.2));
        let mut drained = Vec::new();
        ring.drain(|bucket, visits| drained.extend(all(bucket, visits)));
        assert_eq!(drained, [largest]);
    }

    #[test]
    fn a_full_ring_rejects_entries_until_it_is_drained() {
        let (ring, bucket, register) = (Ring::default(), Timestamp::MIN, Register { index: 7, rank: 3 });
        let pushed = (0..).take_while(|n| ring.push(*n, bucket, register)).count();
        assert_eq!((pushed, ring.should_drain()), (ENTRIES - 2, true));
        let mut drained = 0;
        ring.drain(|_, visits| drained += visits.len());
        assert_eq!((drained, ring.should_drain(), ring.push(0, bucket, register)), (pushed, false, true));
    }
}
