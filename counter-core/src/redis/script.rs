use std::fmt::{self, Display, Write};

use fred::bytes::Bytes;
use fred::types::Value;
use fred::util::sha1_hash;

/// A Lua script, sent by its digest, and in full when the server does not know it (any more).
pub(crate) struct Script {
    pub(super) source: &'static str,
    pub(super) digest: String,
}

/// The keys and arguments of a script. The first key decides on the server of a cluster.
#[derive(Debug)]
pub(crate) struct Call {
    pub(super) keys: Vec<String>,
    arguments: Arguments,
}

/// All arguments in one allocation: a batch has thousands, and most are a few digits long.
#[derive(Debug, Default)]
struct Arguments {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Script {
    pub(crate) fn new(source: &'static str) -> Self {
        Self { source, digest: sha1_hash(source) }
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
        Self { keys: keys.map(str::to_owned).into(), arguments: Arguments::default() }
    }

    /// Adds a key, which must be in the same slot as the first.
    pub(crate) fn key(&mut self, key: &str) {
        self.keys.push(key.to_owned());
    }

    pub(crate) fn push(&mut self, argument: impl AsRef<[u8]>) {
        self.arguments.bytes.extend_from_slice(argument.as_ref());
        self.arguments.end();
    }

    /// Adds a whole number in decimal digits.
    pub(crate) fn number(&mut self, number: impl Display) {
        write!(self.arguments, "{number}").expect("memory takes everything");
        self.arguments.end();
    }

    /// Adds names, which contain no line break, and numbers: one line for each, and all of them as one
    /// argument. For fred an argument is a frame, which costs it 800 instructions.
    pub(crate) fn lines(&mut self, entries: impl Iterator<Item = (impl AsRef<str>, u64)>) {
        let mut digits = itoa::Buffer::new();
        for (name, number) in entries {
            self.arguments.bytes.extend_from_slice(name.as_ref().as_bytes());
            self.arguments.bytes.push(b'\n');
            self.arguments.bytes.extend_from_slice(digits.format(number).as_bytes());
            self.arguments.bytes.push(b'\n');
        }
        self.arguments.end();
    }

    /// Returns the arguments of a command that runs a script: its source or its digest, keys, arguments.
    pub(super) fn args(self, script: &str) -> Vec<Value> {
        let Arguments { bytes, ends } = self.arguments;
        let bytes = Bytes::from(bytes);
        let mut args = Vec::with_capacity(2 + self.keys.len() + ends.len());
        args.push(script.into());
        args.push(self.keys.len().to_string().into());
        args.extend(self.keys.into_iter().map(Value::from));
        let starts = std::iter::once(&0).chain(&ends);
        args.extend(starts.zip(&ends).map(|(&start, &end)| Value::Bytes(bytes.slice(start..end))));
        args
    }
}

impl Arguments {
    fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

impl Write for Arguments {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Texts as the arguments of a command.
pub(crate) fn args<const N: usize>(texts: [&str; N]) -> Vec<Value> {
    texts.map(Value::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_lines_of_one_word() {
        let mut call = Call::new(["key"]);
        call.lines([("a", 0), ("b c", 10), ("é", u64::MAX)].into_iter());
        let args = call.args("digest");
        let lines = Bytes::from_static("a\n0\nb c\n10\né\n18446744073709551615\n".as_bytes());
        assert_eq!(args, ["digest".into(), "1".into(), "key".into(), Value::Bytes(lines)]);
    }
}
