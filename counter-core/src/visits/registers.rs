//! The registers of one (counter, bucket) while requests raise them.
//!
//! Each register is one byte: its rank, and a mark if it rose since it was last collected. Threads only have
//! to agree on that byte, so compare-and-swap on it needs no ordering between registers.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::sketch::{REGISTERS, Register};

#[derive(Debug)]
pub(crate) struct Registers {
    /// In the struct itself: one step less to a register, which is in no cache when there are many counters.
    bytes: [AtomicU8; REGISTERS],
    /// A bit for each block: whether a byte in it may be marked. It is a hint that saves collecting from idle
    /// counters, and from nearly all blocks of those with few new visitors.
    raised: [AtomicU64; REGISTERS / (64 * BLOCK)],
}

/// The number of registers in a block, one cache line: each block has a bit in `raised`.
const BLOCK: usize = 64;

const MARK: u8 = 0x80;

impl Registers {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [const { AtomicU8::new(0) }; REGISTERS],
            raised: [const { AtomicU64::new(0) }; REGISTERS / (64 * BLOCK)],
        }
    }

    /// Raises a register to at least this rank. Nearly always it is there already, and nothing is written.
    #[inline]
    pub(crate) fn raise(&self, Register { index, rank }: Register) {
        let higher = |byte: u8| (byte & !MARK < rank).then_some(rank | MARK);
        let byte = &self.bytes[usize::from(index)];
        if byte.fetch_update(Ordering::Relaxed, Ordering::Relaxed, higher).is_ok() {
            // After the mark and with Release, so that a thread that takes the hint sees the mark.
            let block = usize::from(index) / BLOCK;
            self.raised[block / 64].fetch_or(1 << (block % 64), Ordering::Release);
        }
    }

    /// Takes the registers that rose since the last call.
    pub(crate) fn collect(&self, mut each: impl FnMut(Register)) {
        for (first, raised) in (0..).step_by(64).zip(&self.raised) {
            let mut raised = raised.swap(0, Ordering::Acquire);
            while raised != 0 {
                let block = first + raised.trailing_zeros() as usize;
                raised &= raised - 1;
                self.collect_block(block, &mut each);
            }
        }
    }

    /// Marks every register that is set, for when what was sent before is lost.
    pub(crate) fn mark_all(&self) {
        self.update(|byte| (byte != 0).then_some(byte | MARK));
        self.raised.iter().for_each(|blocks| {
            blocks.fetch_or(u64::MAX, Ordering::Release);
        });
    }

    /// Resets what was collected, so that it rises again when its visitors come again.
    pub(crate) fn forget(&self) {
        self.update(|byte| (byte != 0 && byte & MARK == 0).then_some(0));
    }

    fn update(&self, new: impl Fn(u8) -> Option<u8>) {
        for byte in &self.bytes {
            // A register that another thread raised meanwhile is marked, and stays so.
            let _ = byte.fetch_update(Ordering::Relaxed, Ordering::Relaxed, &new);
        }
    }

    fn collect_block(&self, block: usize, each: &mut impl FnMut(Register)) {
        for index in block * BLOCK..(block + 1) * BLOCK {
            let byte = &self.bytes[index];
            if byte.load(Ordering::Relaxed) & MARK != 0 {
                let rank = byte.fetch_and(!MARK, Ordering::Relaxed) & !MARK;
                each(Register { index: u16::try_from(index).expect("14 bits fit in 16"), rank });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::Sketch;

    fn collected(registers: &Registers) -> Vec<Register> {
        let mut all = Vec::new();
        registers.collect(|register| all.push(register));
        all
    }

    #[test]
    fn only_what_rose_is_collected_and_only_once() {
        let registers = Registers::new();
        let low = Register { index: 3, rank: 2 };
        let high = Register { index: 3, rank: 9 };
        registers.raise(low);
        assert_eq!(collected(&registers), [low]);
        registers.raise(low);
        assert_eq!(collected(&registers), []);
        registers.raise(high);
        registers.raise(low);
        assert_eq!(collected(&registers), [high]);
    }

    #[test]
    fn what_was_collected_rises_again_once_it_is_marked_or_forgotten() {
        let registers = Registers::new();
        let (sent, new) = (Register { index: 3, rank: 9 }, Register { index: 700, rank: 2 });
        registers.raise(sent);
        assert_eq!(collected(&registers), [sent]);
        registers.mark_all();
        assert_eq!(collected(&registers), [sent]);
        registers.raise(new);
        assert_eq!(collected(&registers), [new]);
        registers.raise(Register { rank: 3, ..new });
        registers.forget();
        assert_eq!(collected(&registers), [Register { rank: 3, ..new }], "what rose meanwhile stays");
        let lower = Register { rank: 1, ..sent };
        registers.raise(lower);
        assert_eq!(collected(&registers), [lower]);
    }

    #[test]
    fn nothing_that_threads_raise_while_another_collects_is_lost() {
        let registers = Registers::new();
        let of = |n: u64| Register::of(&n.to_le_bytes());
        let mut seen = Sketch::new();
        std::thread::scope(|scope| {
            let raisers: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let registers = &registers;
                    scope.spawn(move || (0..50_000).for_each(|n| registers.raise(of(4 * n + thread))))
                })
                .collect();
            while raisers.iter().any(|raiser| !raiser.is_finished()) {
                registers.collect(|register| {
                    seen.raise(register);
                });
            }
        });
        registers.collect(|register| {
            seen.raise(register);
        });
        assert_eq!(seen, (0..200_000).map(of).collect());
    }
}
