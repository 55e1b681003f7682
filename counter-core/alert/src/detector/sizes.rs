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
/// The minimum number of sizes for a rank.
const MIN_SIZES: f32 = 30.0;

/// A histogram of sizes, with logarithmic bins.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    /// The number and content of each bin, in ascending order.
    bins: Vec<(i16, f32)>,
    total: f32,
}

impl Sizes {
    /// Returns the share of sizes that are at least this large. For a record, the share falls with the ratio
    /// to the largest size.
    pub(super) fn share_above(&self, size: f64) -> f64 {
        let Some((largest, _)) = self.bins.last().filter(|_| self.total >= MIN_SIZES) else { return 1.0 };
        let position = position(size);
        let above = self.bins.iter().rev().map_while(|(bin, count)| {
            // A size is at a random position in its bin.
            let part = f64::from(*bin) + 1.0 - position;
            (part > 0.0).then_some(part.min(1.0) * f64::from(*count))
        });
        let share = (above.sum::<f64>() + 0.5) / (f64::from(self.total) + 1.0);
        let octaves = (position.floor() - f64::from(*largest)) / BINS_PER_OCTAVE;
        (share * (-octaves.max(0.0)).exp2()).min(1.0)
    }

    /// Returns the size that has this share of sizes in its bin and above.
    pub(super) fn size_at(&self, share: f64) -> f64 {
        let mut above = 0.0;
        let bin = self.bins.iter().rev().find(|(_, count)| {
            above += f64::from(*count);
            above >= share * f64::from(self.total)
        });
        bin.map_or(0.0, |(bin, _)| ((f64::from(*bin) + 1.0) / BINS_PER_OCTAVE).exp2())
    }

    /// Adds a size.
    pub(super) fn add(&mut self, size: f64) {
        if self.total >= MAX_TOTAL {
            self.total /= 2.0;
            self.bins.iter_mut().for_each(|(_, count)| *count /= 2.0);
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
