//! Finds the names of bots in user agents.

use std::cmp::Reverse;

use super::bot::{Row, rows};
use super::purpose::Purpose;

/// Maximum number of bytes of a user agent to scan. The rest is ignored.
const MAX_SCANNED_BYTES: usize = 1024;

/// The words of all known bots, in a hash table by their first bytes.
///
/// An automaton would have one state per byte of all words: with the names that the words of
/// [`AgentMatcher`](crate::classify::agent::AgentMatcher) do not cover, it would need 3.7 MB instead of 100 KB.
/// A name begins after a space or punctuation, so a user agent has about twenty positions to look up, and most
/// of them map to an empty bucket.
pub(crate) struct BotNames {
    /// The words by bucket. In a bucket, longer words are first.
    words: Box<[Word]>,
    /// The index of the first word of each bucket, and the number of words.
    starts: Box<[u16]>,
}

struct Word {
    text: &'static [u8],
    name: &'static str,
    is_library: bool,
}

/// Number of buckets, about four times the number of words.
const BUCKETS: usize = 1 << 13;

/// Number of bytes to hash, which is the minimum length of a word.
const PREFIX_BYTES: usize = 4;

impl Default for BotNames {
    fn default() -> Self {
        let of_row = |row: Row| {
            let (name, is_library) = (row.bot.name(), row.bot.purpose() == Purpose::Library);
            row.words.split(',').map(move |word| Word { text: word.trim().as_bytes(), name, is_library })
        };
        let with_bucket = |word: Word| Some((bucket(word.text)?, word));
        let mut words: Vec<_> = rows().flat_map(of_row).filter_map(with_bucket).collect();
        words.sort_by_key(|(bucket, word)| (*bucket, Reverse(word.text.len())));
        let start = |bucket| words.partition_point(|(other, _)| *other < bucket);
        let starts = (0..=BUCKETS).map(|bucket| u16::try_from(start(bucket)).expect("few words")).collect();
        Self { words: words.into_iter().map(|(_, word)| word).collect(), starts }
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
        let (mut is_start, mut in_address, mut at) = (true, false, 0);
        while let Some(byte) = text.get(at) {
            if byte.is_ascii_alphanumeric() {
                match is_start.then(|| self.longest(&text[at..])).flatten() {
                    Some(word) if !word.is_library => return Some(word.name),
                    word => library = library.or(word),
                }
                at += text[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                is_start = false;
                continue;
            }
            is_start = match byte {
                b' ' | b';' | b',' | b'(' | b')' => {
                    in_address = false;
                    true
                }
                b'/' if text[..at].ends_with(b":/") => {
                    in_address = true;
                    let name = &text[at + 1..];
                    host = host.or_else(|| self.longest(name.strip_prefix(b"www.").unwrap_or(name)));
                    false
                }
                // A path can contain any name.
                b'/' => !in_address,
                // The rest of a word, or of a host name or mail address.
                b'.' | b'@' | b'=' | b'-' | b'_' => false,
                byte => byte.is_ascii(),
            };
            at += 1;
        }
        library.or(host).map(|word| word.name)
    }

    /// Returns the longest word at the start of this text.
    fn longest(&self, text: &[u8]) -> Option<&Word> {
        let bucket = bucket(text)?;
        let words = usize::from(self.starts[bucket])..usize::from(self.starts[bucket + 1]);
        self.words[words].iter().find(|word| {
            let word = word.text;
            text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
                && ends_word(word, &text[word.len()..])
        })
    }
}

/// Returns the bucket for the first bytes of a text.
fn bucket(text: &[u8]) -> Option<usize> {
    let prefix = text.first_chunk::<PREFIX_BYTES>()?.map(|byte| byte.to_ascii_lowercase());
    // Multiplicative hashing: the upper bits depend on all bytes.
    let hash = u32::from_le_bytes(prefix).wrapping_mul(0x9e37_79b1);
    usize::try_from(hash >> (u32::BITS - BUCKETS.ilog2())).ok()
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
