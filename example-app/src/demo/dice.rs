/// A deterministic xorshift random number generator.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    /// Creates a generator. Similar seeds lead to different numbers.
    pub(super) const fn new(seed: u64) -> Self {
        // The state must not be 0.
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: u32) -> u32 {
        u32::try_from((self.next() >> 32) % u64::from(end)).unwrap_or_default()
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.next() >> 32).unwrap_or_default() % items.len()]
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub(super) fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
    }

    /// Returns a number with a mean of 0 and a standard deviation of 1.
    pub(super) fn normal(&mut self) -> f64 {
        let sum: f64 = (0..4).map(|_| self.fraction()).sum();
        (sum - 2.0) * 3_f64.sqrt()
    }

    /// Returns how often something happens that happens this often on average.
    #[allow(clippy::cast_possible_truncation, reason = "the numbers are small")]
    pub(super) fn count(&mut self, mean: f64) -> u32 {
        let noise = if mean < 4.0 { self.fraction() } else { self.normal() * mean.sqrt() + 0.5 };
        (mean + noise).max(0.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_requested_mean() {
        let mut dice = Dice::new(1);
        for mean in [0.0, 0.1, 1.5, 5.0, 300.0] {
            let sum: u32 = (0..10_000).map(|_| dice.count(mean)).sum();
            let found = f64::from(sum) / 10_000.0;
            assert!((found - mean).abs() <= 0.05 * mean, "{found} instead of {mean}");
        }
    }
}
