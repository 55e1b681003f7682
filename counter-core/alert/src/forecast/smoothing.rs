//! Exponential smoothing: a level that follows the values, with or without a trend.
//!
//! We use the models with additive errors and without a season in Hyndman & Athanasopoulos, *Forecasting:
//! Principles and Practice*, third edition (FPP3), chapter 8: ETS(A,N,N), ETS(A,A,N) and, if the trend is
//! damped, ETS(A,A_d,N). The parameters are selected from a grid, so as to minimize the AICc.

/// The weights of an error in the level.
const ALPHAS: [f64; 11] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0];
/// The weights of an error in the trend, as a fraction of alpha.
const BETAS: [f64; 5] = [0.0, 0.05, 0.1, 0.2, 0.4];
/// The factors by which the trend is damped in a bucket.
const DAMPINGS: [f64; 3] = [0.9, 0.98, 1.0];
/// The number of values used to estimate the initial level and trend.
const HEAD_VALUES: usize = 10;

/// A fitted smoothing model.
pub(super) struct Smoothing {
    /// The value expected at each step, given the preceding values.
    pub fitted: Vec<f64>,
    /// The number of fitted parameters.
    pub parameters: usize,
    weights: Weights,
    state: State,
}

/// The expected value at a future step.
pub(super) struct Step {
    pub expected: f64,
    /// The variance of the error, relative to the first future step.
    pub variance: f64,
}

#[derive(Clone, Copy)]
struct Weights {
    alpha: f64,
    beta: f64,
    damping: f64,
}

#[derive(Clone, Copy)]
struct State {
    level: f64,
    trend: f64,
}

/// The weights and the initial state, with the number of free parameters.
struct Candidate {
    weights: Weights,
    state: State,
    parameters: usize,
}

impl Smoothing {
    /// Fits a model to these values, which must not be empty.
    pub(super) fn of(values: &[f64]) -> Self {
        let square: f64 = values.iter().map(|value| value * value).sum();
        // With no errors, the logarithm would be unbounded here, and rounding would decide.
        let min_squares = square.max(1.0) * 1e-20;
        let score = |candidate: &Candidate| {
            let mut squares = min_squares;
            candidate.weights.pass(candidate.state, values, |_, error| squares += error * error);
            let (n, k) = (values.len() as f64, candidate.parameters as f64 + 1.0);
            n * (squares / n).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0).max(1.0)
        };
        let (_, best) = candidates(values)
            .map(|candidate| (score(&candidate), candidate))
            .reduce(|best, next| if next.0 < best.0 { next } else { best })
            .expect("the grid is not empty");
        let mut fitted = Vec::with_capacity(values.len());
        let state = best.weights.pass(best.state, values, |expected, _| fitted.push(expected));
        Self { fitted, parameters: best.parameters, weights: best.weights, state }
    }

    /// Returns the future steps, using the formulas in FPP3, table 8.8.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step> {
        let Weights { alpha, beta, damping } = self.weights;
        let State { level, trend } = self.state;
        let (mut damped, mut trends, mut variance) = (1.0, 0.0, 1.0);
        std::iter::repeat_with(move || {
            damped *= damping;
            trends += damped;
            let step = Step { expected: level + trends * trend, variance };
            variance += (alpha * (1.0 + beta * trends)).powi(2);
            step
        })
    }
}

impl Weights {
    /// Runs through the values, and calls `each` with the expected value and the error.
    fn pass(self, mut state: State, values: &[f64], mut each: impl FnMut(f64, f64)) -> State {
        for value in values {
            let expected = state.level + self.damping * state.trend;
            let error = value - expected;
            each(expected, error);
            state.level = expected + self.alpha * error;
            state.trend = self.damping * state.trend + self.alpha * self.beta * error;
        }
        state
    }
}

/// Returns the mean, the line, then all levels, then all trends. If two candidates fit equally well, this
/// order makes us prefer the simpler model.
fn candidates(values: &[f64]) -> impl Iterator<Item = Candidate> {
    let constant = Weights { alpha: 0.0, beta: 0.0, damping: 1.0 };
    let (whole, head) = (line(values), line(&values[..values.len().min(HEAD_VALUES)]));
    let flat = |line: Line| State { level: line.mean, trend: 0.0 };
    let rising = |line: Line| State { level: line.before, trend: line.slope };
    let lines = [
        Candidate { weights: constant, state: flat(whole), parameters: 1 },
        Candidate { weights: constant, state: rising(whole), parameters: 2 },
    ];
    let levels = ALPHAS.into_iter().map(move |alpha| Candidate {
        weights: Weights { alpha, ..constant },
        state: flat(head),
        parameters: 2,
    });
    let trends = ALPHAS.into_iter().flat_map(move |alpha| {
        BETAS.into_iter().flat_map(move |beta| {
            DAMPINGS.into_iter().map(move |damping| Candidate {
                weights: Weights { alpha, beta, damping },
                state: rising(head),
                parameters: if damping < 1.0 { 5 } else { 4 },
            })
        })
    });
    lines.into_iter().chain(levels).chain(trends)
}

#[derive(Clone, Copy)]
struct Line {
    mean: f64,
    slope: f64,
    /// The value of the line a bucket ahead of the values.
    before: f64,
}

/// Fits a line using least squares.
fn line(values: &[f64]) -> Line {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let middle = (n - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (t, value) in values.iter().enumerate() {
        let from_middle = t as f64 - middle;
        products += from_middle * (value - mean);
        squares += from_middle * from_middle;
    }
    let slope = if squares > 0.0 { products / squares } else { 0.0 };
    Line { mean, slope, before: mean - slope * (middle + 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predict(values: &[f64], steps: usize) -> Vec<f64> {
        Smoothing::of(values).steps().take(steps).map(|step| step.expected).collect()
    }

    #[test]
    fn constants_and_lines_are_extrapolated() {
        assert_eq!(predict(&[7.0; 20], 3), [7.0; 3]);
        let line: Vec<_> = (0..30).map(|t| 5.0 + 2.0 * f64::from(t)).collect();
        for (step, expected) in predict(&line, 4).into_iter().enumerate() {
            assert!((expected - (65.0 + 2.0 * step as f64)).abs() < 1e-6, "{step}: {expected}");
        }
    }

    #[test]
    fn the_forecast_follows_a_step_to_the_new_level() {
        let step: Vec<_> = (0..40).map(|t| if t < 20 { 10.0 } else { 50.0 }).collect();
        for expected in predict(&step, 3) {
            assert!((expected - 50.0).abs() < 1.0, "{expected}");
        }
    }

    #[test]
    fn the_variance_of_a_random_walk_grows_by_one_per_step() {
        let weights = Weights { alpha: 1.0, beta: 0.0, damping: 1.0 };
        let state = State { level: 3.0, trend: 0.0 };
        let random_walk = Smoothing { fitted: Vec::new(), parameters: 2, weights, state };
        assert_eq!(
            random_walk.steps().take(4).map(|step| step.variance).collect::<Vec<_>>(),
            [1.0, 2.0, 3.0, 4.0]
        );
    }
}
