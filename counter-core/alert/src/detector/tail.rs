//! Tails of the error distribution: the probability that an ordinary value has an error of this size.
//!
//! We use peaks over threshold, as in Siffer et al. 2017, *Anomaly Detection in Streams with Extreme Value
//! Theory*. The threshold is a quantile of the errors, and the excesses above the threshold are exponential,
//! with the mean given by a second quantile. Quantiles are robust to outliers. If the errors have heavy
//! tails, the band will be wide.

use super::sizes::Sizes;

/// The share of errors above the threshold, on either side.
const TAIL_SHARE: f64 = 0.05;
/// The share of errors above the second quantile.
const FAR_SHARE: f64 = 0.01;
/// The share of normal errors above a standard deviation.
const DEVIATION_SHARE: f64 = 0.1587;
/// The threshold of the normal distribution and the mean excess, in standard deviations.
const NORMAL: (f64, f64) = (1.645, 0.42);

/// The error distribution, with separate tails above and below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tails {
    pub(super) above: Tail,
    pub(super) below: Tail,
    /// The standard deviation, estimated from a quantile.
    pub(super) scale: f64,
}

/// One side of the distribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    threshold: f64,
    /// The mean excess over the threshold.
    excess: f64,
}

impl Tails {
    /// Estimates the tails from the errors above and below. They will not be narrower than for normal errors
    /// with the given deviation.
    pub(super) fn of([above, below]: &[Sizes; 2], min_deviation: f64) -> Self {
        let [one, other] = [above, below].map(|sizes| sizes.size_at(DEVIATION_SHARE));
        let scale = f64::midpoint(one, other).max(min_deviation);
        Self { above: Tail::of(above, scale), below: Tail::of(below, scale), scale }
    }

    /// Returns the probability that an ordinary error is at least this large, on the same side.
    pub(super) fn probability(&self, error: f64) -> f64 {
        self.above.probability(error).min(self.below.probability(-error))
    }

    /// Returns the range of errors that are at least this probable.
    pub(super) fn limits(&self, probability: f64) -> (f64, f64) {
        (-self.below.distance(probability), self.above.distance(probability))
    }
}

impl Tail {
    fn of(sizes: &Sizes, scale: f64) -> Self {
        let [near, far] = [TAIL_SHARE, FAR_SHARE].map(|share| sizes.size_at(share));
        let excess = (far - near) / (TAIL_SHARE / FAR_SHARE).ln();
        Self { threshold: near.max(NORMAL.0 * scale), excess: excess.max(NORMAL.1 * scale) }
    }

    /// Returns the probability that an ordinary error is at least this large, on this side.
    pub(super) fn probability(self, distance: f64) -> f64 {
        if distance <= 0.0 {
            1.0
        } else if distance <= self.threshold {
            TAIL_SHARE.powf(distance / self.threshold)
        } else {
            TAIL_SHARE * (-(distance - self.threshold) / self.excess).exp()
        }
    }

    /// Returns the distance for this probability, or the threshold if the probability is too large.
    pub(super) fn distance(self, probability: f64) -> f64 {
        self.threshold + self.excess * (TAIL_SHARE / probability).ln().max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tails(errors: impl Iterator<Item = f64>, min_deviation: f64) -> Tails {
        let mut sizes = <[Sizes; 2]>::default();
        for error in errors {
            sizes[0].add(error.max(0.0));
            sizes[1].add((-error).max(0.0));
        }
        Tails::of(&sizes, min_deviation)
    }

    #[test]
    fn the_band_of_normal_errors_is_normal_or_slightly_wider() {
        // The quantiles of the normal distribution at 0.5 / 1000, 1.5 / 1000 etc., computed from the
        // distribution function.
        let tails = tails((0..10_000).map(|n| quantile((f64::from(n) + 0.5) / 10_000.0)), 0.0);
        assert!((tails.scale - 1.0).abs() < 0.05, "{tails:?}");
        for (probability, distance) in [(0.05, 1.645), (1e-3, 3.09), (1e-4, 3.72), (4e-6, 4.47)] {
            let found = tails.above.distance(probability);
            assert!((distance * 0.95..distance * 1.3).contains(&found), "{probability}: {found}");
            assert!((tails.below.distance(probability) - found).abs() < 0.2);
        }
    }

    /// Inverts the normal distribution function, using bisection of a series.
    fn quantile(p: f64) -> f64 {
        let cdf = |x: f64| {
            let (mut term, mut sum) = (x, x);
            for n in 1..200 {
                term *= x * x / f64::from(2 * n + 1);
                sum += term;
            }
            0.5 + sum * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
        };
        let (mut low, mut high) = (-5.0, 5.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if cdf(middle) < p { low = middle } else { high = middle }
        }
        low
    }

    #[test]
    fn spikes_on_one_side_only_widen_this_side() {
        let tails = tails((0..400).map(|n| if n % 10 == 0 { 20.0 } else { f64::from(n % 3) - 1.0 }), 0.0);
        assert!(tails.above.probability(22.0) > 1e-4 && tails.below.probability(22.0) < 1e-12, "{tails:?}");
    }

    proptest! {
        #[test]
        fn tail_probabilities_decrease_with_distance_and_can_be_inverted(
            errors in prop::collection::vec(-1e9..1e9_f64, 0..100),
            some in -1e10..1e10_f64,
            more in 0.0..1e10_f64,
            p in 1e-12..0.05_f64,
        ) {
            let tails = tails(errors.into_iter(), 1e-3);
            for tail in [tails.above, tails.below] {
                let (near, far) = (tail.probability(some), tail.probability(some + more));
                prop_assert!((0.0..=1.0).contains(&near) && far <= near);
                let back = tail.probability(tail.distance(p));
                prop_assert!((back / p - 1.0).abs() < 1e-6, "{} {}", back, p);
            }
        }
    }
}
