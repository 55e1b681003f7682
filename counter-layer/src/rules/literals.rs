use foldhash::HashMap;

/// A map from text to pattern number. A lookup only hashes texts with a known length.
#[derive(Clone, Debug, Default)]
pub(super) struct Literals {
    numbers: HashMap<String, usize>,
    /// Bit set of the text lengths in bytes. The last bit is for all longer texts.
    lengths: u64,
    longest: usize,
}

impl Literals {
    pub(super) fn insert(&mut self, text: String, number: usize) {
        self.lengths |= bit(&text);
        self.longest = self.longest.max(text.len());
        self.numbers.insert(text, number);
    }

    #[inline]
    pub(super) fn get(&self, text: &str) -> Option<usize> {
        if self.lengths & bit(text) == 0 { None } else { self.numbers.get(text).copied() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.numbers.iter().map(|(text, number)| (&**text, *number))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.lengths == 0
    }

    /// Returns the length of the longest text in bytes.
    pub(super) const fn longest(&self) -> usize {
        self.longest
    }
}

fn bit(text: &str) -> u64 {
    1 << text.len().min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_compares_the_whole_text() {
        let text = |byte: char, length| byte.to_string().repeat(length);
        let mut literals = Literals::default();
        assert!(literals.is_empty() && literals.get("").is_none());
        for length in (0..130).step_by(3) {
            literals.insert(text('a', length), length);
        }
        for length in 0..130 {
            let is_known = length % 3 == 0;
            assert_eq!(literals.get(&text('a', length)), is_known.then_some(length), "{length}");
            assert_eq!(literals.get(&text('b', length)), (length == 0).then_some(0), "{length}");
        }
        assert_eq!((literals.longest(), literals.iter().count()), (129, 44));
    }
}
