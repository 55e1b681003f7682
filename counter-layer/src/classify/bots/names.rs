//! Finds the names of bots in user agents.

use std::cmp::Reverse;

use super::bot::{Row, rows};
use super::purpose::Purpose;
use crate::classify::plain::MAX_SCANNED_BYTES;

/// The words of all known bots, in a hash table by their first bytes.
///
/// An automaton would have one state per byte of all words: with the names that the words of
/// [`AgentMatcher`](crate::classify::agent::AgentMatcher) do not cover, it would need 4 MB instead of 130 KB.
/// A name begins after a space or punctuation, so a user agent has about twenty positions to look up.
pub(crate) struct BotNames {
    /// The words by bucket. In a bucket, longer words are first.
    words: Box<[Word]>,
    /// The index of the first word of each bucket, and the number of words.
    starts: Box<[u16; BUCKETS + 1]>,
    /// The hashes of all words, with one bit per hash. Most lookups end here.
    filter: Box<[u64; FILTER_WORDS]>,
}

struct Word {
    prefix: Prefix,
    text: &'static [u8],
    name: &'static str,
    is_library: bool,
    /// Only found at the start of a user agent.
    is_first: bool,
}

/// Number of buckets, about three times the number of words.
const BUCKETS: usize = 1 << 13;

/// Size of the filter, for hashes of 16 bits.
const FILTER_WORDS: usize = (1 << 16) / u64::BITS as usize;

/// The kinds of bytes in a user agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Alphanumeric,
    /// The end of a word or address.
    End,
    /// The next byte may be the start of a host name, or of one of its labels.
    Host,
    /// The rest of a word.
    Part,
    /// The start of a word.
    Start,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Part; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        classes[byte as usize] = match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => Class::Alphanumeric,
            b' ' | b';' | b',' | b'(' | b')' => Class::End,
            b'/' | b'.' | b'@' => Class::Host,
            b'=' | b'-' | b'_' => Class::Part,
            _ => Class::Start,
        };
        byte += 1;
    }
    classes
};

/// The first four bytes in lower case, which are hashed. A word is not shorter.
type Prefix = u32;

impl Default for BotNames {
    fn default() -> Self {
        let of_row = |row: Row| {
            let (name, is_library) = (row.bot.name(), row.bot.purpose() == Purpose::Library);
            row.words.split(',').filter_map(move |word| {
                let word = word.trim();
                let (text, is_first) = word.strip_prefix('^').map_or((word, false), |word| (word, true));
                let text = text.as_bytes();
                Some(Word { prefix: prefix(text)?, text, name, is_library, is_first })
            })
        };
        let with_hash = |word: Word| (Hash::of(word.prefix), word);
        let mut words: Vec<_> = rows().flat_map(of_row).map(with_hash).collect();
        words.sort_by_key(|(hash, word)| (hash.bucket(), Reverse(word.text.len())));
        let mut filter = Box::new([0; FILTER_WORDS]);
        for (hash, _) in &words {
            let (index, bit) = hash.bit();
            filter[index] |= bit;
        }
        let start = |bucket| words.partition_point(|(hash, _)| hash.bucket() < bucket);
        let starts: Vec<_> =
            (0..=BUCKETS).map(|bucket| u16::try_from(start(bucket)).expect("few words")).collect();
        let starts = starts.try_into().expect("one per bucket");
        Self { words: words.into_iter().map(|(_, word)| word).collect(), starts, filter }
    }
}

impl BotNames {
    /// Returns the name of the bot in a user agent.
    ///
    /// If there are multiple names, the first wins, since others follow in phrases like `like Googlebot`. But
    /// a bot wins over the library it uses, and both over the host in the address of a page about the bot.
    pub(crate) fn find(&self, user_agent: &[u8]) -> Option<&'static str> {
        let text = &user_agent[..user_agent.len().min(MAX_SCANNED_BYTES)];
        let (mut library, mut host) = (None, None);
        let (mut is_start, mut in_address, mut in_host, mut at) = (true, false, false, 0);
        while let Some(byte) = text.get(at) {
            let (before, after) = (&text[..at], &text[at + 1..]);
            at += 1;
            is_start = match CLASSES[usize::from(*byte)] {
                Class::Alphanumeric => {
                    if is_start {
                        match self.longest(&text[at - 1..]).filter(|word| before.is_empty() || !word.is_first)
                        {
                            Some(word) if !word.is_library => return Some(word.name),
                            word => library = library.or(word),
                        }
                    }
                    while text.get(at).is_some_and(|byte| CLASSES[usize::from(*byte)] == Class::Alphanumeric)
                    {
                        at += 1;
                    }
                    false
                }
                Class::End => {
                    (in_address, in_host) = (false, false);
                    true
                }
                // A name can begin at any label of a host name, like in `www.example.com`.
                Class::Host if in_host_after(*byte, before, in_host) => {
                    (in_address, in_host) = (true, true);
                    host = host.or_else(|| self.longest(after));
                    false
                }
                // A path can contain any name.
                Class::Host if *byte == b'/' => {
                    in_host = false;
                    !in_address
                }
                Class::Host | Class::Part => false,
                Class::Start => true,
            };
        }
        library.or(host).map(|word| word.name)
    }

    /// Returns the longest word at the start of this text.
    #[inline]
    fn longest(&self, text: &[u8]) -> Option<&Word> {
        let prefix = prefix(text)?;
        let hash = Hash::of(prefix);
        let (index, bit) = hash.bit();
        if self.filter[index] & bit == 0 {
            return None;
        }
        let bucket = hash.bucket();
        let words = &self.words[usize::from(self.starts[bucket])..usize::from(self.starts[bucket + 1])];
        words.iter().find(|word| word.prefix == prefix && matches(word.text, text))
    }
}

/// Returns `true` if a text with the prefix of this word starts with the word. The same name is often spelled in
/// different ways, so `Example Bot` matches `example-bot` and `ExampleBot`, and vice versa.
fn matches(word: &[u8], text: &[u8]) -> bool {
    let is_separator = |byte: &u8| matches!(byte, b' ' | b'-' | b'_');
    // The first bytes are the same.
    let (mut expected, mut rest) = (&word[size_of::<Prefix>()..], &text[size_of::<Prefix>()..]);
    while let [first, ..] = expected {
        match rest.first() {
            Some(byte) if byte.eq_ignore_ascii_case(first) => (expected, rest) = (&expected[1..], &rest[1..]),
            // The last byte of a word like `google-` is not optional.
            _ if is_separator(first) && expected.len() > 1 => expected = &expected[1..],
            Some(byte) if is_separator(byte) => rest = &rest[1..],
            _ => return false,
        }
    }
    ends_word(word, rest)
}

/// Returns `true` if a label of a host name follows this byte.
fn in_host_after(byte: u8, before: &[u8], in_host: bool) -> bool {
    match byte {
        b'/' => before.ends_with(b":/"),
        b'.' => in_host || before.ends_with(b"www"),
        _ => true,
    }
}

/// Returns the first bytes of a text, with letters in lower case.
fn prefix(text: &[u8]) -> Option<Prefix> {
    // This bit is the difference between upper and lower case.
    Some(u32::from_le_bytes(*text.first_chunk()?) | 0x2020_2020)
}

/// A hash of the prefix.
#[derive(Clone, Copy)]
struct Hash(u32);

impl Hash {
    /// Multiplicative hashing: the upper bits depend on all bytes.
    fn of(prefix: Prefix) -> Self {
        Self(prefix.wrapping_mul(0x9e37_79b1))
    }

    fn bucket(self) -> usize {
        (self.0 >> (u32::BITS - BUCKETS.ilog2())) as usize
    }

    /// Returns the index in the filter, and the bit.
    fn bit(self) -> (usize, u64) {
        let hash = self.0 >> 16;
        ((hash / u64::BITS) as usize, 1 << (hash % u64::BITS))
    }
}

/// Returns `true` if a word is not followed by more letters. A version can follow immediately. A word that
/// ends in punctuation, like `dart/`, can be followed by anything.
fn ends_word(word: &[u8], after: &[u8]) -> bool {
    let Some(last) = word.last().filter(|last| last.is_ascii_alphanumeric()) else { return true };
    match after.first() {
        Some(next) if next.is_ascii_digit() => !last.is_ascii_digit(),
        Some(next) => next.is_ascii() && !next.is_ascii_alphabetic(),
        None => true,
    }
}
