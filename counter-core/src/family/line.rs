//! Lines of dumps of any family: JSON of bounded length, with registers and items in base64.

use std::borrow::Cow;
use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::name::CounterName;
use crate::sketch::{Sketch, hash};

/// The first word of a dump.
pub(crate) const FORMAT: &str = "access-counter";

/// The length of the longest line, in bytes.
pub(crate) const LINE: usize = 64 * 1024;

/// The number of characters of a foreign text that are repeated.
pub(crate) const REPEATED: usize = 500;

/// Reads a line; the error is what was expected.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, String> {
    if bytes.len() > LINE {
        return Err(format!("a line of at most {LINE} bytes"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        // It names a line of this text, which is always the first.
        let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
        format!("{what} ({} at byte {})", unquoted(reason), error.column())
    })
}

/// The lines of a dump in progress, with their numbers and checksums.
#[derive(Debug)]
pub(crate) struct Lines {
    ready: VecDeque<String>,
    /// The number and the checksum of the last line.
    number: u64,
    sum: u64,
}

impl Lines {
    pub(crate) const fn new() -> Self {
        Self { ready: VecDeque::new(), number: 0, sum: FIRST_SUM }
    }

    /// Adds a line; `text` returns the line of a number.
    pub(crate) fn push(&mut self, text: impl FnOnce(u64) -> String) {
        self.number += 1;
        self.ready.push_back(sealed(text(self.number), &mut self.sum));
    }

    /// Takes the next line.
    pub(crate) fn pop(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    /// Returns whether all lines were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Returns the number of lines so far.
    #[cfg(feature = "unique")]
    pub(crate) const fn count(&self) -> u64 {
        self.number
    }
}

/// The position of a restore in a dump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// The number of the last accepted line.
    line: u64,
    /// The checksum of that line; `None` if the dump has none.
    sum: Option<u64>,
}

impl Position {
    /// The position before the first line.
    pub(crate) const START: Self = Self { line: 0, sum: Some(FIRST_SUM) };

    /// Returns the number of the last accepted line.
    pub(crate) const fn line(self) -> u64 {
        self.line
    }

    /// Returns the number of the next line.
    pub(crate) const fn due(self) -> u64 {
        self.line + 1
    }

    /// Returns the position after a line of this number. The error is what was expected; `due` names the line of a number.
    pub(crate) fn after(
        self,
        line: &Sealed<'_>,
        number: u64,
        due: impl FnOnce(u64) -> String,
    ) -> Result<Self, String> {
        let next = self.due();
        if number != next {
            return Err(format!("{}, not {number}", due(next)));
        }
        Ok(Self { line: next, sum: line.follow(self.sum, next == 1)? })
    }
}

/// A line of a dump that was read, apart from its checksum.
pub(crate) struct Sealed<'a> {
    /// The line without the checksum.
    pub(crate) text: Cow<'a, [u8]>,
    sum: Option<u64>,
}

/// Stands before a checksum, which ends a line as `,"sum":"0123456789abcdef"}`.
const SUM: &[u8] = b",\"sum\":\"";

/// The length of the end of a line from there on.
const SUM_LENGTH: usize = SUM.len() + 16 + 2;

/// The checksum before the first line.
const FIRST_SUM: u64 = 0;

/// Appends its checksum to a line, which covers the lines before it as well; `sum` is the checksum of the line before.
fn sealed(mut text: String, sum: &mut u64) -> String {
    *sum = sum_after(*sum, text.as_bytes());
    text.pop();
    text + &format!(",\"sum\":\"{sum:016x}\"}}")
}

fn sum_after(sum: u64, text: &[u8]) -> u64 {
    hash(&[sum.to_le_bytes(), hash(text).to_le_bytes()].concat())
}

impl<'a> Sealed<'a> {
    /// Takes the checksum off a line, if there is one.
    pub(crate) fn of(line: &'a [u8]) -> Self {
        let seal = line.len().checked_sub(SUM_LENGTH).map(|at| line.split_at(at));
        let sum = seal.and_then(|(_, seal)| {
            let digits = seal.strip_prefix(SUM)?.strip_suffix(b"\"}")?;
            u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
        });
        match seal.zip(sum) {
            Some(((text, _), sum)) => Self { text: [text, b"}"].concat().into(), sum: Some(sum) },
            None => Self { text: line.into(), sum: None },
        }
    }

    /// Returns the checksum of this line, if `before` is that of the line before it. It is `None` in a dump without
    /// checksums, as earlier versions made them: the first line decides. The error is what was expected.
    fn follow(&self, before: Option<u64>, is_first: bool) -> Result<Option<u64>, String> {
        match (before, self.sum) {
            (Some(before), Some(sum)) if sum_after(before, &self.text) == sum => Ok(Some(sum)),
            (Some(_), Some(_)) => Err("the checksum of the line: the file is damaged".to_owned()),
            (Some(_), None) if is_first => Ok(None),
            (Some(_), None) => Err("a checksum at the end of the line".to_owned()),
            (None, None) => Ok(None),
            (None, Some(_)) => Err("no checksum, as in the first line".to_owned()),
        }
    }
}

/// Leaves out the text that an error repeats, which may be anything: an item, or an address.
fn unquoted(reason: &str) -> String {
    match reason.split_once('"').zip(reason.rsplit_once('"')) {
        Some(((before, _), (_, after))) => format!("{before}…{after}"),
        None => reason.to_owned(),
    }
}

/// Returns the beginning of a foreign text.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(REPEATED).collect()
}

/// Reads the name of a counter; the error is what was expected.
pub(crate) fn name(text: &str) -> Result<CounterName, String> {
    CounterName::new(text).map_err(|error| format!("the name of a counter ({error})"))
}

/// Returns registers as Redis would store them, in base64.
pub(crate) fn encoded(sketch: &Sketch) -> String {
    STANDARD.encode(sketch.to_redis_short())
}

/// Reads registers; the error is what was expected.
pub(crate) fn registers(text: &str) -> Result<Sketch, String> {
    Sketch::from_redis(&decoded(text)?).map_err(|error| format!("registers ({error})"))
}

/// Returns bytes in base64.
#[cfg(feature = "unique")]
pub(crate) fn encoded_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads bytes; the error is what was expected.
pub(crate) fn decoded(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("base64 ({error})"))
}
