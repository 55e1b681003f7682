//! Bounds for the Poisson distribution, i.e. for independent hits.

/// Returns the Chernoff bound: the maximum probability that a Poisson variable with this mean is at least as
/// far from the mean as this count.
pub(super) fn probability(count: f64, mean: f64) -> f64 {
    let mean = mean.max(1e-9);
    let distance = if count > 0.0 { count * (count / mean).ln() - count + mean } else { mean };
    (-distance).exp().min(1.0)
}

/// Returns the range of counts for which the bound is at least this probability. We use bisection to find it.
pub(super) fn band(mean: f64, bound: f64) -> (f64, f64) {
    let bisect = |mut inside: f64, mut outside: f64| {
        for _ in 0..50 {
            let middle = f64::midpoint(inside, outside);
            if (inside - outside).abs() < 0.1 {
                break;
            }
            *(if probability(middle, mean) >= bound { &mut inside } else { &mut outside }) = middle;
        }
        inside
    };
    let exponent = -bound.ln();
    let low = if probability(0.0, mean) >= bound { 0.0 } else { bisect(mean, 0.0) };
    (low, bisect(mean, mean + 2.0 * exponent + (8.0 * exponent * mean).sqrt()))
}
