/// 64 bits that stand for a user agent beside its address. The keyed hash takes a step for eight bytes, each
/// of which waits for the last, and a user agent has a hundred; here a multiplication takes sixteen, and none
/// waits (the sum of products is that of NH, from *UMAC: fast and secure message authentication*, 1999).
///
/// There is no secret in it, nor need there be: what it gives is hashed with one, together with the address,
/// and whoever makes a user agent that looks like that of a neighbour could as well send the neighbour's.
pub(super) fn digest(text: &[u8]) -> u64 {
    let mut sum = text.len() as u128;
    let mut key = KEY;
    let mut add = |pair: [u8; 16]| {
        let pair = u128::from_le_bytes(pair);
        let other = key.wrapping_mul(KEY);
        let (low, high) = (low(pair).wrapping_add(key), low(pair >> 64).wrapping_add(other));
        sum = sum.wrapping_add(u128::from(low) * u128::from(high));
        key = other.wrapping_mul(KEY);
    };
    let (pairs, rest) = text.as_chunks();
    pairs.iter().for_each(|pair| add(*pair));
    if let Some(last) = text.last_chunk() {
        // Some of its bytes once more, where they are no whole pair.
        add(*last);
    } else {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        add(last);
    }
    low(sum) ^ low(sum >> 64)
}

/// The golden ratio. Its powers have nothing to do with each other; its multiples would have, and texts with a bit
/// in two places would be the same.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

fn low(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).expect("masked")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_byte_and_the_length_matter() {
        let mut seen = HashSet::new();
        let mut differs = |text: &[u8]| assert!(seen.insert(digest(text)), "{text:?}");
        for length in 0..100 {
            let mut text = vec![0; length];
            differs(&text);
            for place in 0..length {
                for byte in [1, 0x80, 0xff] {
                    text[place] = byte;
                    differs(&text);
                }
                text[place] = 0;
            }
        }
    }

    #[test]
    fn every_two_bits_matter() {
        for length in [8, 16, 23, 48, 70] {
            let mut seen = HashSet::new();
            for (one, other) in (0..8 * length).flat_map(|n| (0..n).map(move |m| (n, m))) {
                let mut text = vec![b'a'; length];
                text[one / 8] ^= 1 << (one % 8);
                text[other / 8] ^= 1 << (other % 8);
                assert!(seen.insert(digest(&text)), "{one} and {other} of {length}");
            }
        }
    }

    #[test]
    fn versions_and_parts_that_change_places_matter() {
        let mut seen = HashSet::new();
        for (system, version) in (0..300).flat_map(|n| (0..300).map(move |m| (n, m))) {
            let agent = format!(
                "Mozilla/5.0 (X{system}; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
            );
            assert!(seen.insert(digest(agent.as_bytes())), "{agent}");
        }
        let [one, other] = [*b"aaaabbbbccccdddd", *b"ddddccccbbbbaaaa"];
        assert_ne!(digest(&[one, other].concat()), digest(&[other, one].concat()));
    }

    proptest! {
        #[test]
        fn no_two_texts_have_the_same(one in ".{0,60}", other in ".{0,60}") {
            prop_assert_eq!(one == other, digest(one.as_bytes()) == digest(other.as_bytes()));
        }
    }
}
