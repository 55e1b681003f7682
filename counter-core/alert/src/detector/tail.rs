//! Tails of the error distribution: the probability that an ordinary value has an error of this size.
//!
//! We use peaks over threshold, as in Siffer et al. 2017, *Anomaly Detection in Streams with Extreme Value
//! Theory*. The threshold is a quantile of the errors, and the excesses above the threshold are exponential,
//! with the mean of the errors. A quantile and a mean of bounded errors are robust to a single outlier. If the
//! errors have heavy tails, the band will be wide.

/// The share of errors above the threshold, on either side.
const TAIL_SHARE: f64 = 0.05;
/// The number of excesses to add from the normal distribution, as a prior.
const PRIOR_EXCESSES: f64 = 8.0;
/// The threshold of the normal distribution and the mean excess, in standard deviations.
const NORMAL: (f64, f64) = (1.645, 0.42);

/// The error distribution, with separate tails above and below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tails {
    pub(super) above: Tail,
    pub(super) below: Tail,
    /// The standard deviation, estimated from the median error.
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
    /// Estimates the tails from these errors. They will not be narrower than for normal errors with the given
    /// deviation.
    pub(super) fn of(errors: impl Iterator<Item = f64>, min_deviation: f64) -> Self {
        let mut errors: Vec<f64> = errors.collect();
        if errors.is_empty() {
            errors.push(0.0);
        }
        let mut distances: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        let middle = distances.len() / 2;
        let median = *distances.select_nth_unstable_by(middle, f64::total_cmp).1;
        // If most errors are 0, the median does not say anything about the remaining errors.
        let mean = distances.iter().sum::<f64>() / distances.len() as f64;
        let scale = (1.4826 * median).max(mean / 4.0).max(min_deviation);
        let above = Tail::of(&mut errors, scale);
        errors.iter_mut().for_each(|error| *error = -*error);
        let below = Tail::of(&mut errors, scale);
        Self { above, below, scale }
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
    fn of(errors: &mut [f64], scale: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a length")]
        let index = (errors.len() as f64 * (1.0 - TAIL_SHARE)) as usize;
        let index = index.min(errors.len() - 1);
        let found = *errors.select_nth_unstable_by(index, f64::total_cmp).1;
        let threshold = found.max(NORMAL.0 * scale);
        let excesses = errors.iter().map(|error| error - threshold).filter(|excess| *excess > 0.0);
        let (sum, count) = excesses.fold((0.0, 0.0), |(sum, count), excess| (sum + excess, count + 1.0));
        let typical = NORMAL.1 * scale;
        let excess = ((sum + PRIOR_EXCESSES * typical) / (count + PRIOR_EXCESSES)).max(typical);
        Self { threshold, excess }
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

    #[test]
    fn the_band_of_normal_errors_is_normal_or_slightly_wider() {
        // The quantiles of the normal distribution at 0.5 / 1000, 1.5 / 1000 etc., computed from the
        // distribution function.
        let errors = (0..1000).map(|n| quantile((f64::from(n) + 0.5) / 1000.0));
        let tails = Tails::of(errors, 0.0);
        assert!((tails.scale - 1.0).abs() < 0.01, "{tails:?}");
        for (probability, distance) in [(0.05, 1.645), (1e-3, 3.09), (1e-4, 3.72), (4e-6, 4.47)] {
            let found = tails.above.distance(probability);
            assert!((distance - 0.01..distance * 1.3).contains(&found), "{probability}: {found}");
            assert!((tails.below.distance(probability) - found).abs() < 0.05);
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
        let tails = Tails::of((0..400).map(|n| if n % 10 == 0 { 20.0 } else { f64::from(n % 3) - 1.0 }), 0.0);
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
            let tails = Tails::of(errors.into_iter(), 1e-3);
            for tail in [tails.above, tails.below] {
                let (near, far) = (tail.probability(some), tail.probability(some + more));
                prop_assert!((0.0..=1.0).contains(&near) && far <= near);
                let back = tail.probability(tail.distance(p));
                prop_assert!((back / p - 1.0).abs() < 1e-6, "{} {}", back, p);
            }
        }
    }
}
