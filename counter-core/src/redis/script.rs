use std::fmt::{self, Display, Write};

use fred::bytes::Bytes;
use fred::types::Value;
use fred::util::sha1_hash;

/// A Lua script. It is sent by digest, or in full if the server has not cached it.
pub(crate) struct Script {
    source: &'static str,
    digest: Bytes,
}

/// The keys and arguments for a script.
#[derive(Debug)]
pub(crate) struct Call {
    /// The first key, used to choose the server in a cluster.
    first: String,
    keys: Words,
    arguments: Words,
}

/// Strings in a single allocation, because most are short. Clones share it.
#[derive(Debug, Default)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Script {
    pub(crate) fn new(source: &'static str) -> Self {
        Self { source, digest: sha1_hash(source).into() }
    }

    pub(super) fn digest(&self) -> Value {
        Value::Bytes(self.digest.clone())
    }

    pub(super) fn source(&self) -> Value {
        Value::Bytes(Bytes::from_static(self.source.as_bytes()))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Call {
    pub(crate) fn new<const N: usize>(keys: [&str; N]) -> Self {
        const { assert!(N > 0) };
        let mut call =
            Self { first: keys[0].to_owned(), keys: Words::default(), arguments: Words::default() };
        keys.into_iter().for_each(|key| call.key(key));
        call
    }

    /// Adds a key. It must be in the same slot as the first key.
    pub(crate) fn key(&mut self, key: &str) {
        self.keys.bytes.extend_from_slice(key.as_bytes());
        self.keys.end();
    }

    pub(crate) fn push(&mut self, argument: impl AsRef<[u8]>) {
        self.part(argument);
        self.end();
    }

    /// Adds an integer in decimal digits.
    pub(crate) fn number(&mut self, number: impl Display) {
        write!(self.arguments, "{number}").expect("memory takes everything");
        self.end();
    }

    /// Appends to the current argument, which must be completed by [`end`](Self::end).
    ///
    /// If the script can split a string, prefer a single argument: fred sends arguments as frames, and a
    /// frame costs 800 instructions.
    pub(crate) fn part(&mut self, part: impl AsRef<[u8]>) {
        self.arguments.bytes.extend_from_slice(part.as_ref());
    }

    /// Appends a number to the current argument. This does not use the standard library formatter, as it
    /// would take five times more instructions.
    pub(crate) fn digits_part(&mut self, number: u64) {
        self.part(itoa::Buffer::new().format(number));
    }

    /// Appends a line to the current argument. The text must not contain a line break.
    pub(crate) fn line(&mut self, text: &str) {
        self.part(text);
        self.arguments.bytes.push(b'\n');
    }

    /// Appends a number as a line to the current argument.
    pub(crate) fn digits_line(&mut self, number: u64) {
        self.digits_part(number);
        self.arguments.bytes.push(b'\n');
    }

    /// Completes the current argument.
    pub(crate) fn end(&mut self) {
        self.arguments.end();
    }

    /// Returns the first key, and the arguments for `EVALSHA`: digest, number of keys, keys, arguments.
    pub(super) fn args(self, script: &Script) -> (String, Vec<Value>) {
        let keys = self.keys.ends.len();
        let mut args = Vec::with_capacity(2 + keys + self.arguments.ends.len());
        args.push(script.digest());
        args.push(keys.to_string().into());
        self.keys.append_to(&mut args);
        self.arguments.append_to(&mut args);
        (self.first, args)
    }
}

impl Words {
    fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    fn append_to(self, args: &mut Vec<Value>) {
        debug_assert_eq!(self.ends.last().copied().unwrap_or(0), self.bytes.len(), "the last word has ended");
        let bytes = Bytes::from(self.bytes);
        let starts = std::iter::once(&0).chain(&self.ends);
        args.extend(starts.zip(&self.ends).map(|(&start, &end)| Value::Bytes(bytes.slice(start..end))));
    }
}

impl Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Converts strings into command arguments.
pub(crate) fn args<const N: usize>(strings: [&str; N]) -> Vec<Value> {
    strings.map(Value::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_precede_arguments_and_lines_form_a_single_argument() {
        let mut call = Call::new(["key"]);
        for (name, number) in [("a", 0), ("b c", 10), ("é", u64::MAX)] {
            call.line(name);
            call.digits_line(number);
        }
        call.end();
        call.key("another");
        call.number(7);
        let lines = "a\n0\nb c\n10\né\n18446744073709551615\n";
        let (first, args) = call.args(&Script::new(""));
        let words = args.into_iter().map(|value| value.into_string());
        let words: Vec<_> = words.map(|word| word.expect("a text")).collect();
        assert_eq!(first, "key");
        assert_eq!(words, [&*sha1_hash(""), "2", "key", "another", lines, "7"]);
    }
}
