//! Random decisions that can be repeated.

/// Random decisions (SplitMix64). The same seed leads to the same decisions.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// Creates a generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Returns `true` with this probability.
    pub const fn holds(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a probability for many decisions, which is often 0 or 100.
    pub(super) fn percent(&mut self) -> u64 {
        [0, 10, 50, 90, 100][usize::try_from(self.below(5)).expect("an index")]
    }
}
