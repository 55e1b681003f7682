//! Ertl's estimator, in the form and the order of operations of `hllCount` in Redis.

use super::{INDEX_BITS, MAX_RANK, REGISTERS};

/// 1 / (2 ln 2), to Redis's digits.
const ALPHA_INFINITY: f64 = 0.721_347_520_444_481_7;

/// Returns the estimate from the ranks of the registers that are set.
pub(super) fn estimate(ranks: impl Iterator<Item = u8>) -> u64 {
    let mut of_rank = [0_u32; MAX_RANK as usize + 1];
    let mut unset = 1_u32 << INDEX_BITS;
    for rank in ranks {
        of_rank[usize::from(rank)] += 1;
        unset -= 1;
    }
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(of_rank[usize::from(MAX_RANK)])) / m);
    for count in of_rank[1..usize::from(MAX_RANK)].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(unset) / m);
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
