//! SipHash-1-3 with 128 bits of output, for messages that consist of whole words.
//!
//! Aumasson and Bernstein, *SipHash: a fast short-input PRF*, 2012. The caller converts bytes into words, so
//! we don't need to keep a remainder between calls. For an address and a user agent, this takes half the time
//! compared to a hasher for arbitrary bytes.

#[derive(Clone, Debug)]
pub(crate) struct SipHash {
    state: [u64; 4],
    words: u64,
}

impl SipHash {
    #[inline]
    pub(crate) fn new([low, high]: [u64; 2]) -> Self {
        // "somepseudorandomlygeneratedbytes", and the marker for 128-bit output.
        let state = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ];
        Self { state, words: 0 }
    }

    /// Resumes from a state, given the number of words hashed so far.
    #[inline]
    pub(crate) const fn resume(state: [u64; 4], words: u64) -> Self {
        Self { state, words }
    }

    /// Returns the state, for use with `resume`.
    pub(crate) const fn state(self) -> [u64; 4] {
        self.state
    }

    #[inline]
    pub(crate) fn word(&mut self, word: u64) {
        self.words += 1;
        self.mix(word);
    }

    /// Adds bytes and the length, so that different inputs always result in different words. Up to seven
    /// bytes are combined with the length in a single word. For longer inputs, the last word contains the
    /// last eight bytes, and might overlap with the previous word.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let Some(last) = bytes.last_chunk::<8>() else {
            self.word(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)) << 8 | length);
            return;
        };
        self.word(length);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            self.word(u64::from_le_bytes(*last));
        }
    }

    #[inline(always)]
    pub(crate) fn finish(mut self) -> [u8; 16] {
        self.mix(self.words << 59);
        self.state[2] ^= 0xee;
        let low = self.finish_half();
        self.state[1] ^= 0xdd;
        let high = self.finish_half();
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }

    #[inline]
    fn mix(&mut self, word: u64) {
        self.state[3] ^= word;
        self.round();
        self.state[0] ^= word;
    }

    #[inline]
    fn finish_half(&mut self) -> u64 {
        for _ in 0..3 {
            self.round();
        }
        self.state.iter().fold(0, |all, word| all ^ word)
    }

    #[inline]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.state;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use siphasher::sip128::SipHasher13;

    use super::*;

    proptest! {
        #[test]
        fn the_hash_matches_the_siphasher_crate(
            key in any::<[u64; 2]>(),
            words in prop::collection::vec(any::<u64>(), 0..40),
        ) {
            let mut hash = SipHash::new(key);
            words.iter().for_each(|word| hash.word(*word));
            let key = key.map(u64::to_le_bytes).concat().try_into().expect("sixteen bytes");
            let message: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(hash.finish(), SipHasher13::new_with_key(&key).hash(&message).as_bytes());
        }
    }

    #[test]
    fn all_bytes_affect_the_hash() {
        for length in 0..40 {
            let of = |bytes: &[u8]| {
                let mut hash = SipHash::new([7; 2]);
                hash.bytes(bytes);
                hash.finish()
            };
            let bytes = vec![1; length];
            for place in 0..length {
                let mut others = bytes.clone();
                others[place] = 2;
                assert_ne!(of(&bytes), of(&others), "byte {place} of {length}");
            }
        }
    }
}
