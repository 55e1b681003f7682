//! Sizes of errors, ranked: the share of earlier errors that were at least as large.
//!
//! A model of the error distribution is wrong for most real series: they have heavy tails, plateaus, few
//! distinct values, or spikes that repeat. A rank needs no model. If errors are exchangeable, a share of 1 in
//! 1,000 is as rare as it says, on every kind of series, and what repeats becomes normal. This is conformal
//! prediction, as in Laxhammar & Falkman 2013, *Online Learning and Sequential Anomaly Detection in
//! Trajectories*.

/// The number of bins per power of two.
const BINS_PER_OCTAVE: f64 = 4.0;
/// The maximum number of bins. If there are more, the smallest sizes share a bin.
const MAX_BINS: usize = 128;
/// The number of sizes after which all bins are halved, so that old sizes will be forgotten.
const MAX_TOTAL: f32 = 16_384.0;
/// The assumed index of the tail beyond the largest size. Most heavy tails are lighter, i.e. have an index of
/// 2 to 4.
const TAIL_INDEX: f64 = 2.0;

/// The maximum number of errors to learn from an event.
pub(super) const MAX_EVENT_ERRORS: usize = 3;
/// This number of sizes repeats, because it can't be from a single event.
const MIN_REPEATED: f64 = MAX_EVENT_ERRORS as f64 + 1.0;

/// A histogram of sizes, with logarithmic bins.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    /// The number and content of each bin, in ascending order.
    bins: Vec<(i16, f32)>,
    total: f32,
}

impl Sizes {
    /// Returns the share of sizes that are at least this large. For a record, the share falls with the
    /// square of the ratio to the largest size.
    pub(super) fn share_above(&self, size: f64) -> f64 {
        let Some((largest, _)) = self.bins.last() else { return 1.0 };
        let position = position(size);
        let above = self.bins.iter().rev().map_while(|(bin, count)| {
            // A size is at a random position in its bin.
            let part = f64::from(*bin) + 1.0 - position;
            (part > 0.0).then_some(part.min(1.0) * f64::from(*count))
        });
        let share = (above.sum::<f64>() + 0.5) / (f64::from(self.total) + 1.0);
        let octaves = (position.floor() - f64::from(*largest)) / BINS_PER_OCTAVE;
        (share * (-TAIL_INDEX * octaves.max(0.0)).exp2()).min(1.0)
    }

    /// Returns the size with this [share](Self::share_above), which can be larger than any size so far.
    pub(super) fn size_above(&self, share: f64) -> f64 {
        let Some((largest, _)) = self.bins.last() else { return f64::INFINITY };
        let above = share * (f64::from(self.total) + 1.0) - 0.5;
        if above > 0.0 {
            return self.size_below(above);
        }
        let record = 0.5 / (f64::from(self.total) + 1.0);
        let bins = (BINS_PER_OCTAVE / TAIL_INDEX * (record / share).log2()).ceil().max(1.0);
        ((f64::from(*largest) + bins) / BINS_PER_OCTAVE).exp2()
    }

    /// Returns the size that is exceeded by this share of sizes, but at least by four.
    pub(super) fn size_at(&self, share: f64) -> f64 {
        self.size_below(MIN_REPEATED.max(share * f64::from(self.total)))
    }

    /// Returns the size that is exceeded by this number of sizes.
    fn size_below(&self, mut left: f64) -> f64 {
        for (bin, count) in self.bins.iter().rev() {
            if left <= f64::from(*count) {
                let position = f64::from(*bin) + 1.0 - left / f64::from(*count);
                return (position / BINS_PER_OCTAVE).exp2();
            }
            left -= f64::from(*count);
        }
        0.0
    }

    /// Returns the number of sizes. Old sizes count less.
    pub(super) const fn total(&self) -> f32 {
        self.total
    }

    /// Adds a size.
    pub(super) fn add(&mut self, size: f64) {
        if self.total >= MAX_TOTAL {
            self.total /= 2.0;
            self.bins.iter_mut().for_each(|(_, count)| *count /= 2.0);
            // Otherwise, a single event would stay the largest size for good.
            self.bins.retain(|(_, count)| *count >= 1.0);
        }
        self.total += 1.0;
        #[expect(clippy::cast_possible_truncation, reason = "between -400 and 400")]
        let bin = position(size).floor() as i16;
        match self.bins.binary_search_by_key(&bin, |(bin, _)| *bin) {
            Ok(index) => self.bins[index].1 += 1.0,
            Err(index) => self.bins.insert(index, (bin, 1.0)),
        }
        if self.bins.len() > MAX_BINS {
            let (_, smallest) = self.bins.remove(0);
            self.bins[0].1 += smallest;
        }
    }
}

/// Returns the position of a size, in bins.
fn position(size: f64) -> f64 {
    size.clamp(1e-30, 1e30).log2() * BINS_PER_OCTAVE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(sizes: impl IntoIterator<Item = f64>) -> Sizes {
        let mut all = Sizes::default();
        sizes.into_iter().for_each(|size| all.add(size));
        all
    }

    #[test]
    fn a_share_is_a_rank_on_any_scale() {
        for scale in [1e-6, 1.0, 1e9] {
            for power in [1.0, 2.0] {
                let size = |n: u32| scale * (1e4 / f64::from(10_001 - n)).powf(power);
                let all = sizes((1..=10_000).map(size));
                for (n, share) in [(5_000, 0.5), (9_000, 0.1), (9_900, 0.01)] {
                    let found = all.share_above(size(n));
                    assert!((share * 0.7..share * 1.4).contains(&found), "{scale} {power} {n}: {found}");
                    for at in [all.size_at(share), all.size_above(share)] {
                        assert!((size(n) * 0.9..size(n) * 1.1).contains(&at), "{scale} {power} {n}: {at}");
                    }
                }
                assert!(all.share_above(2.0 * size(10_000)) < 1e-4);
            }
        }
    }

    #[test]
    fn a_size_that_repeats_becomes_normal() {
        let mut all = sizes(std::iter::repeat_n(1.0, 5_000));
        assert!(all.share_above(10.0) < 1e-4);
        for _ in 0..20 {
            all.add(10.0);
        }
        assert!(all.share_above(10.0) > 1e-3 && all.size_at(1e-3) > 8.0);
        // And it will be forgotten.
        for _ in 0..100_000 {
            all.add(1.0);
        }
        assert!(all.share_above(10.0) < 1e-4 && all.size_at(1e-3) < 2.0);
        assert!(all.size_above(1e-5) < 4.0, "{}", all.size_above(1e-5));
    }

    proptest! {
        #[test]
        fn shares_decrease_with_size_and_memory_is_bounded(
            some in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0_f64, 1e-30..1e30_f64], 0..300),
            size in 0.0..1e10_f64,
            more in 0.0..1e10_f64,
            share in (-6.0..-0.05_f64).prop_map(|power| 10_f64.powf(power)),
        ) {
            let all = sizes(some);
            prop_assert!(all.bins.len() <= MAX_BINS);
            let (near, far) = (all.share_above(size), all.share_above(size + more));
            prop_assert!(0.0 < far && far <= near && near <= 1.0, "{} {}", near, far);
            let at = all.size_above(share);
            if (1e-29..1e29).contains(&at) {
                prop_assert!(all.share_above(at * 1.001) <= share * 1.01, "{}", at);
                // A bin is 1.19 times as large as the previous one.
                prop_assert!(all.share_above(at / 1.2) >= share * 0.99, "{}", at);
            }
        }
    }
}
