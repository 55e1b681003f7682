//! HyperLogLog sketches that are bit-for-bit compatible with Redis.
//!
//! A sketch estimates the number of distinct visitors using 2^14 registers of 6 bits: the visitor hash
//! selects a register and a rank, and a register stores the maximum rank (Flajolet et al., *HyperLogLog*,
//! 2007; we use the estimator from Ertl, *New cardinality estimation algorithms for HyperLogLog sketches*,
//! 2017). Like Redis, this module uses MurmurHash64A, so that sketches written by Redis can be read, merged
//! and counted here, and vice versa.

mod encoding;
mod estimate;
mod murmur;

pub use encoding::SketchError;
pub(crate) use murmur::hash;

use std::cmp::Ordering::{Equal, Greater, Less};

/// The number of registers in a sketch.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;

/// The relative standard error of an estimate: 1.04 / √16384.
pub const STANDARD_ERROR: f64 = 0.008_125;

const INDEX_BITS: u32 = 14;
/// The maximum rank: the number of hash bits not used by the index, plus one.
const MAX_RANK: u8 = 64 - 14 + 1;
/// Maximum number of registers to store as a list. Above this, 16 KiB of plain registers are smaller.
const MAX_SPARSE_REGISTERS: usize = 4096;

/// The visitors in a bucket, as HyperLogLog registers of at most 16 KiB.
///
/// ```
/// use counter_core::sketch::Sketch;
/// use counter_core::visitor::VisitorKey;
///
/// let key = VisitorKey::new([7; 16]);
/// let (mut monday, mut tuesday) = (Sketch::new(), Sketch::new());
/// monday.insert(key.visitor(&[b"ann"]));
/// monday.insert(key.visitor(&[b"bob"]));
/// tuesday.insert(key.visitor(&[b"bob"]));
/// monday.merge(&tuesday);
/// assert_eq!(monday.estimate(), 2);
/// assert_eq!(Sketch::from_redis(&monday.to_redis())?, monday);
/// # Ok::<(), counter_core::sketch::SketchError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sketch(Registers);

/// A sketch register: an index below 2^14, and a rank from 1 to 51.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register {
    pub(crate) index: u16,
    pub(crate) rank: u8,
}

#[derive(Clone, Debug)]
enum Registers {
    /// Non-zero registers, ordered by index.
    Sparse(Vec<Register>),
    /// The ranks of all registers.
    Dense(Box<[u8]>),
}

impl Sketch {
    /// Creates an empty sketch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a visitor, either by ID or by register. Returns `true` if a register changes, like PFADD.
    pub fn insert(&mut self, visitor: impl Into<Register>) -> bool {
        self.raise(visitor.into())
    }

    /// Adds arbitrary bytes, like PFADD. Returns `true` if a register changes.
    pub fn insert_element(&mut self, element: &[u8]) -> bool {
        self.raise(Register::of(element))
    }

    /// Raises a register to this rank, if it is lower. Returns `true` if the register changes.
    pub(crate) fn raise(&mut self, Register { index, rank }: Register) -> bool {
        match &mut self.0 {
            Registers::Dense(ranks) => raise(&mut ranks[usize::from(index)], rank),
            Registers::Sparse(set) => match set.binary_search_by_key(&index, |set| set.index) {
                Ok(position) => raise(&mut set[position].rank, rank),
                Err(position) => {
                    set.insert(position, Register { index, rank });
                    if set.len() > MAX_SPARSE_REGISTERS {
                        self.0 = Registers::Dense(dense(set));
                    }
                    true
                }
            },
        }
    }

    /// Raises distinct registers, which must be in ascending order.
    pub(crate) fn raise_all(&mut self, raised: &[Register]) {
        let Registers::Sparse(set) = &mut self.0 else {
            return raised.iter().for_each(|register| _ = self.raise(*register));
        };
        if set.last().is_none_or(|last| raised.first().is_none_or(|first| last.index < first.index)) {
            set.extend_from_slice(raised);
        } else {
            *set = merged(set, raised);
        }
        if set.len() > MAX_SPARSE_REGISTERS {
            self.0 = Registers::Dense(dense(set));
        }
    }

    /// Adds all visitors from another sketch.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Registers::Dense(ranks), Registers::Dense(others)) => {
                for (rank, other) in ranks.iter_mut().zip(others) {
                    *rank = (*rank).max(*other);
                }
            }
            (Registers::Sparse(set), Registers::Dense(others)) => {
                let set = std::mem::take(set);
                self.0 = Registers::Dense(others.clone());
                set.into_iter().for_each(|register| _ = self.raise(register));
            }
            (Registers::Sparse(set), Registers::Sparse(_)) if set.is_empty() => self.clone_from(other),
            (_, Registers::Sparse(others)) => self.raise_all(others),
        }
    }

    /// Returns `true` if merging `other` would not change this sketch.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Registers::Dense(ranks), Registers::Dense(others)) => {
                ranks.iter().zip(others).all(|(rank, other)| rank >= other)
            }
            (Registers::Dense(ranks), Registers::Sparse(others)) => {
                others.iter().all(|other| ranks[usize::from(other.index)] >= other.rank)
            }
            (Registers::Sparse(_), _) => {
                let mut registers = self.registers().peekable();
                other.registers().all(|other| {
                    while registers.next_if(|register| register.index < other.index).is_some() {}
                    registers
                        .next_if(|register| register.index == other.index && register.rank >= other.rank)
                        .is_some()
                })
            }
        }
    }

    /// Estimates the number of distinct visitors, with a standard error of 0.81 %. PFCOUNT returns the same
    /// number.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        estimate::estimate(&match &self.0 {
            Registers::Sparse(set) => estimate::histogram_of_set(set),
            Registers::Dense(ranks) => estimate::histogram(ranks),
        })
    }

    /// Returns `true` if there are no visitors in the sketch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.registers().next().is_none()
    }

    /// Returns the number of non-zero registers.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Registers::Sparse(set) => set.len(),
            Registers::Dense(ranks) => ranks.iter().filter(|rank| **rank > 0).count(),
        }
    }

    /// Returns the non-zero registers, ordered by index.
    pub fn registers(&self) -> impl Iterator<Item = Register> {
        let (set, ranks) = match &self.0 {
            Registers::Sparse(set) => (set.as_slice(), &[][..]),
            Registers::Dense(ranks) => (&[][..], &**ranks),
        };
        let dense = (0..).zip(ranks).map(|(index, &rank)| Register { index, rank });
        set.iter().copied().chain(dense.filter(|register| register.rank > 0))
    }

    /// Decodes a Redis HyperLogLog value, either dense or sparse.
    ///
    /// # Errors
    /// Returns an error if this is not a valid value.
    pub fn from_redis(bytes: &[u8]) -> Result<Self, SketchError> {
        encoding::decode(bytes)
    }

    /// Encodes the sketch as a Redis value, using the shorter encoding: sparse up to 3,000 bytes (the Redis
    /// default), otherwise dense.
    #[cfg(any(feature = "dump", feature = "_sql"))]
    pub(crate) fn to_redis_short(&self) -> Vec<u8> {
        encoding::encode_sparse(self.registers()).unwrap_or_else(|| self.to_redis())
    }

    /// Encodes the sketch as a Redis value, using the dense encoding (12,304 bytes).
    #[must_use]
    pub fn to_redis(&self) -> Vec<u8> {
        encoding::encode(self.registers())
    }
}

impl Register {
    /// Returns the register index.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.index
    }

    /// Returns the rank.
    #[must_use]
    pub const fn rank(self) -> u8 {
        self.rank
    }

    /// Creates a register. Returns `None` if the index or rank is out of range.
    #[cfg(feature = "spool")]
    pub(crate) fn new(index: u16, rank: u8) -> Option<Self> {
        let is_one = usize::from(index) < REGISTERS && (1..=MAX_RANK).contains(&rank);
        is_one.then_some(Self { index, rank })
    }

    /// Returns the register selected by the hash of an element, with the rank.
    #[inline]
    pub(crate) fn of(element: &[u8]) -> Self {
        let hash = murmur::hash(element);
        let rest = (hash >> INDEX_BITS) | (1 << (64 - INDEX_BITS));
        let index = u16::try_from(hash & (REGISTERS as u64 - 1)).expect("14 bits fit in 16");
        let rank = u8::try_from(rest.trailing_zeros() + 1).expect("a rank is at most 51");
        Self { index, rank }
    }

    /// Returns eight bytes that PFADD maps to this register. They reveal nothing about the visitor.
    ///
    /// MurmurHash64A can be inverted for inputs of 8 bytes, which allows us to compute the element from the
    /// hash.
    #[must_use]
    pub fn element(self) -> [u8; 8] {
        let zeros = u32::from(self.rank) - 1;
        let rest = if self.rank == MAX_RANK { 0 } else { 1_u64 << zeros };
        murmur::inverse(rest << INDEX_BITS | u64::from(self.index))
    }
}

impl PartialEq for Sketch {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Registers::Dense(ranks), Registers::Dense(others)) => ranks == others,
            _ => self.registers().eq(other.registers()),
        }
    }
}

impl Eq for Sketch {}

impl FromIterator<Register> for Sketch {
    fn from_iter<I: IntoIterator<Item = Register>>(registers: I) -> Self {
        let mut sketch = Self::new();
        for register in registers {
            sketch.raise(register);
        }
        sketch
    }
}

impl Default for Registers {
    fn default() -> Self {
        Self::Sparse(Vec::new())
    }
}

fn raise(rank: &mut u8, to: u8) -> bool {
    let rises = *rank < to;
    if rises {
        *rank = to;
    }
    rises
}

/// Merges registers, which must be in ascending order.
fn merged(mut set: &[Register], mut others: &[Register]) -> Vec<Register> {
    let mut merged = Vec::with_capacity(set.len() + others.len());
    while let ([one, set_rest @ ..], [other, others_rest @ ..]) = (set, others) {
        merged.push(match one.index.cmp(&other.index) {
            Less => *one,
            Greater => *other,
            Equal => *one.max(other),
        });
        if one.index <= other.index {
            set = set_rest;
        }
        if other.index <= one.index {
            others = others_rest;
        }
    }
    merged.extend_from_slice(set);
    merged.extend_from_slice(others);
    merged
}

fn dense(set: &[Register]) -> Box<[u8]> {
    let mut ranks = vec![0; REGISTERS].into_boxed_slice();
    for register in set {
        ranks[usize::from(register.index)] = register.rank;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn register_elements_hash_to_the_register() {
        for index in (0..16_384).step_by(97).chain([16_383]) {
            for rank in 1..=MAX_RANK {
                let register = Register { index, rank };
                assert_eq!(Register::of(&register.element()), register);
            }
        }
    }

    #[test]
    fn an_estimate_is_within_four_standard_errors() {
        let mut sketch = Sketch::new();
        assert_eq!(sketch.estimate(), 0);
        for n in 1..=200_000_u32 {
            sketch.insert_element(&n.to_le_bytes());
            if [1, 10, 100, 1000, 10_000, 200_000].contains(&n) {
                let error = (sketch.estimate() as f64 - f64::from(n)).abs() / f64::from(n);
                assert!(error < 4.0 * STANDARD_ERROR, "{n}: {}", sketch.estimate());
            }
        }
    }

    proptest! {
        #[test]
        fn merging_is_independent_of_encoding_and_order(
            left in prop::collection::vec(any::<u64>(), 0..6000),
            right in prop::collection::vec(any::<u64>(), 0..3000),
        ) {
            let of = |all: &[u64]| -> Sketch { all.iter().map(|n| Register::of(&n.to_le_bytes())).collect() };
            let (mut a, mut b) = (of(&left), of(&right));
            let both = of(&[left, right].concat());
            a.merge(&of(&[]));
            let (only_left, only_right) = (a.clone(), b.clone());
            b.merge(&a);
            a.merge(&only_right);
            prop_assert_eq!(&a, &both);
            prop_assert_eq!(&b, &both);
            // Also test all combinations of in-memory representations.
            let packed = |sketch: &Sketch| Sketch::from_redis(&sketch.to_redis()).expect("well formed");
            for (mut one, other) in [
                (packed(&only_left), only_right.clone()),
                (only_left.clone(), packed(&only_right)),
                (packed(&only_left), packed(&only_right)),
            ] {
                one.merge(&other);
                prop_assert_eq!(&one, &both);
                prop_assert_eq!(one.estimate(), both.estimate());
            }
            #[cfg(feature = "archive")]
            for one in [&only_left, &packed(&only_left), &only_right, &packed(&only_right), &both] {
                for other in [&only_left, &packed(&only_left), &only_right, &packed(&only_right), &both] {
                    let mut union = one.clone();
                    union.merge(other);
                    prop_assert_eq!(one.includes(other), &union == one);
                }
            }
            prop_assert_eq!(Sketch::from_redis(&both.to_redis()), Ok(both.clone()));
            #[cfg(any(feature = "dump", feature = "_sql"))]
            prop_assert_eq!(Sketch::from_redis(&both.to_redis_short()), Ok(both));
        }
    }
}
