//! All registers of a counter in a bucket, which folding can raise while hits read them.
//!
//! A counter with many visitors keeps its registers in a shared slot. If a hit finds out that the visitor
//! would not raise anything there, the visitor is already known and can be skipped.

use std::sync::{Arc, OnceLock};

use crate::sketch::{REGISTERS, Register};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// Ranks of the registers, eight per word. A register is dirty from when it rises until it is collected. Only
/// the holder of the backlog lock can raise registers.
#[derive(Debug)]
pub(crate) struct Ranks([AtomicU64; WORDS]);

const WORDS: usize = if cfg!(counter_loom) { 64 } else { REGISTERS / 8 };

/// Number of words per block. [`Ranks::raise`] returns a bit set with a bit per block.
const BLOCK: usize = WORDS / 64;

const DIRTY: u8 = 0x80;

/// The dirty bits of all bytes.
const DIRTY_BITS: u64 = u64::from_ne_bytes([DIRTY; 8]);

impl Default for Ranks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Ranks {
    /// Returns whether a register has at least this rank.
    #[inline]
    pub(crate) fn has(&self, Register { index, rank }: Register) -> bool {
        (self.word(index).load(Ordering::Acquire) >> shift(index)) & u64::from(!DIRTY) >= u64::from(rank)
    }

    /// Raises a register to at least this rank and marks it as dirty. Returns the bit of the block, or 0 if
    /// the register did not rise.
    pub(crate) fn raise(&self, register: Register) -> u64 {
        if self.has(register) { 0 } else { self.set(register, true) }
    }

    /// Sets a register and the dirty bit. Returns the bit of the block if it is dirty, otherwise 0.
    pub(crate) fn set(&self, Register { index, rank }: Register, is_dirty: bool) -> u64 {
        let rank = if is_dirty { rank | DIRTY } else { rank };
        let others = self.word(index).load(Ordering::Relaxed) & !(0xff << shift(index));
        // Pairs with the load in `has`, so that readers also see the owner.
        self.word(index).store(others | u64::from(rank) << shift(index), Ordering::Release);
        u64::from(is_dirty) << (usize::from(index) / 8 / BLOCK)
    }

    /// Clears the dirty bits in these blocks, and calls `each` with the dirty registers.
    pub(crate) fn collect(&self, mut blocks: u64, mut each: impl FnMut(Register)) {
        while blocks != 0 {
            let block = blocks.trailing_zeros() as usize;
            blocks &= blocks - 1;
            for (index, word) in self.0.iter().enumerate().skip(block * BLOCK).take(BLOCK) {
                let ranks = word.load(Ordering::Relaxed);
                let mut dirty = ranks & DIRTY_BITS;
                if dirty == 0 {
                    continue;
                }
                // Pairs with the load in `has`, like the store in `set`.
                word.store(ranks & !DIRTY_BITS, Ordering::Release);
                while dirty != 0 {
                    let byte = dirty.trailing_zeros() / 8;
                    dirty &= dirty - 1;
                    each(register(index, byte, ranks & !DIRTY_BITS));
                }
            }
        }
    }

    /// Calls `each` with all registers that are set.
    pub(crate) fn each(&self, mut each: impl FnMut(Register)) {
        for (index, word) in self.0.iter().enumerate() {
            let ranks = word.load(Ordering::Relaxed) & !DIRTY_BITS;
            let all = (0..8).map(|byte| register(index, byte, ranks));
            all.filter(|register| register.rank > 0).for_each(&mut each);
        }
    }

    /// Resets all registers. A reader that sees this too early pushes its visitor again, which is harmless.
    fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    #[inline]
    fn word(&self, index: u16) -> &AtomicU64 {
        &self.0[usize::from(index) / 8 % WORDS]
    }
}

#[inline]
const fn shift(index: u16) -> u32 {
    index as u32 % 8 * 8
}

#[allow(clippy::cast_possible_truncation, reason = "an index has 14 bits, and a rank is a byte")]
const fn register(index: usize, byte: u32, ranks: u64) -> Register {
    Register { index: (8 * index) as u16 + byte as u16, rank: (ranks >> (8 * byte)) as u8 }
}

/// Slots to look up the ranks of busy counters, i.e. counters with many visitors. A counter maps to a single
/// slot, and can only use it if it is free.
#[derive(Debug)]
pub(crate) struct Busy {
    slots: Box<[Slot]>,
    /// Width of a visitor bucket, in seconds.
    width: u64,
}

#[derive(Debug)]
struct Slot {
    /// The counter and the bucket that own these ranks.
    owner: AtomicU64,
    ranks: OnceLock<Arc<Ranks>>,
}

/// Number of slots: up to 4 MB if all of them are used.
const SLOTS: usize = if cfg!(counter_loom) { 1 } else { 256 };

const NO_OWNER: u64 = u64::MAX;

impl Busy {
    pub(crate) fn new(width: u64) -> Self {
        let slots =
            (0..SLOTS).map(|_| Slot { owner: AtomicU64::new(NO_OWNER), ranks: OnceLock::new() }).collect();
        Self { slots, width }
    }

    /// Returns `true` if a register of this counter and bucket number has at least this rank; `None` if the
    /// counter is not in the slot.
    #[inline]
    pub(crate) fn has(&self, counter: u32, bucket: u64, register: Register) -> Option<bool> {
        let (slot, owner) = (self.slot(counter), owner(counter, bucket));
        let is_owner = || slot.owner.load(Ordering::Acquire) == owner;
        let ranks = if is_owner() { slot.ranks.get()? } else { return None };
        // Ranks are loaded with `Acquire` and raised with `Release`: if we see a rank of a later owner, we also
        // see that the owner has changed.
        Some(ranks.has(register) && is_owner())
    }

    /// Assigns the slot to a counter and a bucket if it is free.
    pub(crate) fn take(&self, counter: u32, bucket: Timestamp) -> Option<Arc<Ranks>> {
        let slot = self.slot(counter);
        if slot.owner.load(Ordering::Relaxed) != NO_OWNER {
            return None;
        }
        let ranks = slot.ranks.get_or_init(Arc::default);
        ranks.clear();
        // Pairs with the loads in `has`, so that the new owner only has cleared ranks.
        slot.owner.store(owner(counter, self.number(bucket)), Ordering::Release);
        Some(Arc::clone(ranks))
    }

    /// Frees the slots of these counters and bucket numbers.
    pub(crate) fn release(&self, which: impl Fn(u32, u64) -> bool) {
        for slot in &self.slots {
            let owner = slot.owner.load(Ordering::Relaxed);
            if owner != NO_OWNER && which((owner >> NUMBER_BITS) as u32, owner & NUMBERS) {
                slot.owner.store(NO_OWNER, Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of a bucket since 1970.
    pub(crate) fn number(&self, bucket: Timestamp) -> u64 {
        bucket.as_unix() / self.width
    }

    #[inline]
    fn slot(&self, counter: u32) -> &Slot {
        &self.slots[counter as usize % SLOTS]
    }
}

/// Number of bits for a bucket number. More than 26 bits of counters would not fit into memory.
const NUMBER_BITS: u32 = 38;
const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;

#[inline]
const fn owner(counter: u32, bucket: u64) -> u64 {
    (counter as u64) << NUMBER_BITS | bucket & NUMBERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_keep_the_highest_rank_and_are_collected_once_per_rise() {
        let ranks = Ranks::default();
        let of = |index, rank| Register { index, rank };
        let collect = |blocks| {
            let mut all = Vec::new();
            ranks.collect(blocks, |register| all.push(register));
            all
        };
        let (first, next, last) = (of(0, 51), of(1, 7), of(16_383, 1));
        let blocks = [last, of(1, 3), next, first].map(|register| ranks.raise(register));
        assert!(blocks.iter().all(|block| block.count_ones() == 1) && blocks[0] != blocks[1]);
        assert_eq!([ranks.raise(first), ranks.raise(of(1, 6))], [0, 0]);
        assert!(ranks.has(first) && ranks.has(of(1, 7)) && !ranks.has(of(1, 8)) && !ranks.has(of(2, 1)));
        let all = blocks.iter().fold(0, |all, block| all | block);
        assert_eq!((collect(all), collect(u64::MAX)), (vec![first, next, last], vec![]));
        assert_eq!(collect(ranks.raise(of(1, 8))), [of(1, 8)]);
        let mut set = Vec::new();
        ranks.each(|register| set.push(register));
        assert_eq!(set, [first, of(1, 8), last]);
    }

    #[test]
    fn readers_never_see_ranks_of_a_different_owner() {
        const LAST: u64 = 20_000;
        let busy = Busy::new(1);
        let has = |bucket, register| busy.has(3, bucket, register) == Some(true);
        // Even and odd buckets have different registers.
        let register = |bucket: u64| Register { index: u16::from(!bucket.is_multiple_of(2)), rank: 9 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !has(LAST, register(LAST)) {
                        let bucket = busy.slots[3].owner.load(Ordering::Relaxed) & NUMBERS;
                        assert!(!has(bucket, register(bucket + 1)));
                    }
                });
            }
            for bucket in 0..=LAST {
                busy.release(|counter, _| counter == 3);
                let ranks = busy.take(3, Timestamp::from_unix(bucket)).expect("the slot is free");
                assert!(busy.take(3 + 256, Timestamp::from_unix(bucket)).is_none());
                ranks.raise(register(bucket));
            }
        });
    }
}
