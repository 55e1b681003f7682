//! MurmurHash64A (Austin Appleby) with the Redis seed, and the inverse for inputs of 8 bytes.

const SEED: u64 = 0xadc8_3b19;
const M: u64 = 0xc6a4_a793_5bd1_e995;
/// `M` is odd, so it can be inverted modulo 2^64.
const M_INVERSE: u64 = inverse_of(M);
const R: u32 = 47;

#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut h = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    for word in words {
        h = (h ^ scramble(u64::from_le_bytes(*word))).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    h = fold(h).wrapping_mul(M);
    fold(h)
}

/// Returns the 8 bytes that hash to `h`, by reverting all steps of the hash.
pub(super) fn inverse(h: u64) -> [u8; 8] {
    let h = fold(fold(h).wrapping_mul(M_INVERSE));
    let word = h.wrapping_mul(M_INVERSE) ^ SEED ^ M.wrapping_mul(8);
    fold(word.wrapping_mul(M_INVERSE)).wrapping_mul(M_INVERSE).to_le_bytes()
}

fn scramble(word: u64) -> u64 {
    fold(word.wrapping_mul(M)).wrapping_mul(M)
}

/// Folds the upper half into the lower half. This is self-inverse because the shift is larger than half of
/// the width.
const fn fold(h: u64) -> u64 {
    h ^ (h >> R)
}

/// Computes the inverse using Newton's method, which doubles the number of correct low bits per step, from 3
/// to 96.
const fn inverse_of(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_the_inverse_is_the_input() {
        for h in (0..64).map(|bit| 1 << bit).chain([0, u64::MAX, 0x0123_4567_89ab_cdef]) {
            assert_eq!(hash(&inverse(h)), h);
        }
    }
}
