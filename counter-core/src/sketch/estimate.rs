//! The estimator by Ertl, using the same order of operations as `hllCount` in Redis.

use super::{MAX_RANK, REGISTERS, Register};

/// 1 / (2 ln 2), using the same digits as Redis.
const ALPHA_INFINITY: f64 = 0.721_347_520_444_481_7;

/// The number of registers by rank. Index 0 counts empty registers.
type Histogram = [u32; MAX_RANK as usize + 1];

/// Returns the rank histogram for all registers.
pub(super) fn histogram(ranks: &[u8]) -> Histogram {
    // Adjacent registers often have the same rank. With a single histogram, an increment would need to wait
    // for the previous increment.
    let mut parts = [[0; MAX_RANK as usize + 1]; 4];
    for ranks in ranks.chunks(4) {
        for (part, rank) in parts.iter_mut().zip(ranks) {
            part[usize::from(*rank)] += 1;
        }
    }
    std::array::from_fn(|rank| parts.iter().map(|part| part[rank]).sum())
}

/// Returns the rank histogram, given the non-zero registers.
pub(super) fn histogram_of_set(set: &[Register]) -> Histogram {
    let mut of_rank = [0; MAX_RANK as usize + 1];
    for register in set {
        of_rank[usize::from(register.rank)] += 1;
    }
    of_rank[0] = u32::try_from(REGISTERS - set.len()).expect("14 bits fit in 32");
    of_rank
}

/// Computes the estimate from a histogram.
pub(super) fn estimate(of_rank: &Histogram) -> u64 {
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(of_rank[usize::from(MAX_RANK)])) / m);
    for count in of_rank[1..usize::from(MAX_RANK)].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(of_rank[0]) / m);
    rounded(ALPHA_INFINITY * m * m / z)
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and an estimate is never negative")]
fn rounded(estimate: f64) -> u64 {
    estimate.round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
