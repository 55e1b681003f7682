use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::time::Duration;

/// Deterministic random numbers (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a random seed, far from the greatest.
    pub(crate) fn seed() -> u64 {
        RandomState::new().hash_one(0) >> 16
    }

    /// Returns the random numbers for a storm, seeded with `COUNTER_STORM_SEED` or randomly.
    pub(crate) fn storm(name: &str) -> Self {
        let seed = Self::storm_seed();
        eprintln!("a storm {name}: COUNTER_STORM_SEED={seed}");
        Self::new(seed)
    }

    /// Returns `COUNTER_STORM_SEED`, which is used to repeat a storm, or a random seed.
    pub(crate) fn storm_seed() -> u64 {
        let value = std::env::var("COUNTER_STORM_SEED").ok();
        value.map_or_else(Self::seed, |seed| seed.parse().expect("COUNTER_STORM_SEED is a whole number"))
    }

    /// Returns the seeds for this number of random histories, or for `COUNTER_STORM_HISTORIES`. Starts at
    /// `COUNTER_STORM_SEED` or a random seed.
    pub(crate) fn histories(name: &str, default: u64) -> Range<u64> {
        let number = std::env::var("COUNTER_STORM_HISTORIES").ok();
        let number = number
            .map_or(default, |number| number.parse().expect("COUNTER_STORM_HISTORIES is a whole number"));
        let first = Self::storm_seed();
        eprintln!("{name}: {number} histories from COUNTER_STORM_SEED={first}");
        first..first + number
    }

    /// Creates an independent generator for a task.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn among(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.among(range))
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.next() % len as u64).expect("an index")
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }
}

/// Random numbers below a count. A number can't be repeated before every other number has been returned, so
/// that no number is missing for long.
#[derive(Debug)]
pub(crate) struct Rounds {
    count: u64,
    remaining: Vec<u64>,
}

impl Rounds {
    pub(crate) fn of(count: u64) -> Self {
        Self { count, remaining: Vec::new() }
    }

    pub(crate) fn next(&mut self, random: &mut Random) -> u64 {
        if self.remaining.is_empty() {
            self.remaining = (0..self.count).collect();
        }
        let index = random.among(0..self.remaining.len() as u64);
        self.remaining.swap_remove(usize::try_from(index).expect("an index"))
    }
}
