//! Dump lines for all families: JSON with a limited length. Registers and items are encoded as base64.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::name::CounterName;
use crate::sketch::{Sketch, hash};

/// The format name at the start of a dump.
pub(crate) const FORMAT: &str = "access-counter";

/// The maximum line length in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024;

/// Maximum number of characters to quote from untrusted input.
pub(crate) const MAX_QUOTED_CHARS: usize = 500;

/// Parses a line. The error contains the expected format.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], expected: &str) -> Result<T, String> {
    if bytes.len() > MAX_LINE_BYTES {
        return Err(format!("a line of at most {MAX_LINE_BYTES} bytes"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        // serde_json also reports the line, but this is always line 1 here.
        let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
        format!("{expected} ({} at byte {})", unquoted(reason), error.column())
    })
}

/// The start of any dump, also of a version that is not supported.
#[derive(Deserialize)]
struct Start<'a> {
    #[serde(borrow)]
    entry: StartEntry<'a>,
}

#[derive(Deserialize)]
struct StartEntry<'a> {
    #[serde(borrow)]
    dump: Header<'a>,
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    version: u32,
}

/// Checks the version, if this is the first line of a dump. The error contains the expected version, and says
/// whether the dump or this program is older.
pub(crate) fn check_version(bytes: &[u8], versions: RangeInclusive<u32>) -> Result<(), String> {
    let Ok(Start { entry: StartEntry { dump: Header { format, version } } }) = serde_json::from_slice(bytes)
    else {
        return Ok(());
    };
    let (oldest, newest) = versions.into_inner();
    let advice = match version {
        _ if format != FORMAT => "it is another format",
        version if version > newest => "the dump is newer than this program: update this program",
        version if version < oldest => {
            "the dump is older than this program: restore it with the program that wrote it"
        }
        _ => return Ok(()),
    };
    Err(format!(
        "the format {FORMAT} in version {oldest} to {newest}, not {} in version {version}; {advice}",
        cut(&format)
    ))
}

/// Lines for a dump in progress, including the line numbers and checksums.
#[derive(Debug)]
pub(crate) struct Lines {
    ready: VecDeque<String>,
    /// The number of the latest line.
    number: u64,
    /// The checksum of the latest line, from which the next checksum is computed.
    sum: u64,
}

impl Lines {
    pub(crate) const fn new() -> Self {
        Self { ready: VecDeque::new(), number: 0, sum: FIRST_SUM }
    }

    /// Adds a line. `text` is called with the line number.
    pub(crate) fn push(&mut self, text: impl FnOnce(u64) -> String) {
        self.number += 1;
        self.ready.push_back(sealed(text(self.number), &mut self.sum));
    }

    /// Takes the next line.
    pub(crate) fn pop(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    /// Returns `true` if all lines have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Returns the number of lines added so far.
    #[cfg(feature = "unique")]
    pub(crate) const fn count(&self) -> u64 {
        self.number
    }
}

/// The position in a dump that is being restored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// The number of the latest accepted line.
    line: u64,
    /// The checksum of the latest accepted line. `None` if there are no checksums in the dump.
    sum: Option<u64>,
}

impl Position {
    /// The position before the first line.
    pub(crate) const START: Self = Self { line: 0, sum: Some(FIRST_SUM) };

    /// Returns the number of the latest accepted line.
    pub(crate) const fn line(self) -> u64 {
        self.line
    }

    /// Returns the number of the next line.
    pub(crate) const fn due(self) -> u64 {
        self.line + 1
    }

    /// Returns the position after the line with the given number. The error contains the expected line: `due`
    /// is called with the expected number in order to describe it.
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

/// A dump line, split into text and checksum.
pub(crate) struct Sealed<'a> {
    /// The line without the checksum.
    pub(crate) text: Cow<'a, [u8]>,
    sum: Option<u64>,
}

/// The text before the checksum. A line ends with `,"sum":"0123456789abcdef"}`.
const SUM: &[u8] = b",\"sum\":\"";

/// The length of the checksum and the text around it, at the end of a line, in bytes.
const SUM_LENGTH: usize = SUM.len() + 16 + 2;

/// The checksum from which the checksum of the first line is computed.
const FIRST_SUM: u64 = 0;

/// Appends the checksum to a line. Checksums are chained, so `sum` must be the checksum of the previous line.
fn sealed(mut text: String, sum: &mut u64) -> String {
    *sum = sum_after(*sum, text.as_bytes());
    text.pop();
    text + &format!(",\"sum\":\"{sum:016x}\"}}")
}

fn sum_after(sum: u64, text: &[u8]) -> u64 {
    hash(&[sum.to_le_bytes(), hash(text).to_le_bytes()].concat())
}

impl<'a> Sealed<'a> {
    /// Splits off the checksum, if there is one.
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

    /// Returns the checksum of this line if it follows a line with the checksum `before`. This is `None` if
    /// there are no checksums in the dump, as in earlier versions: the first line decides. The error
    /// contains the expected format.
    fn follow(&self, before: Option<u64>, is_first: bool) -> Result<Option<u64>, String> {
        match (before, self.sum) {
            (Some(before), Some(sum)) if sum_after(before, &self.text) == sum => Ok(Some(sum)),
            (Some(_), Some(_)) => Err("a matching checksum: the file is corrupt".to_owned()),
            (Some(_), None) if is_first => Ok(None),
            (Some(_), None) => Err("a checksum at the end of the line".to_owned()),
            (None, None) => Ok(None),
            (None, Some(_)) => Err("no checksum, as in the first line".to_owned()),
        }
    }
}

/// Removes quoted text from an error message, because it may be sensitive, e.g. an item or an IP address.
fn unquoted(reason: &str) -> String {
    match reason.split_once('"').zip(reason.rsplit_once('"')) {
        Some(((before, _), (_, after))) => format!("{before}…{after}"),
        None => reason.to_owned(),
    }
}

/// Truncates untrusted input.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect()
}

/// Parses a counter name. The error contains the expected format.
pub(crate) fn name(text: &str) -> Result<CounterName, String> {
    CounterName::new(text).map_err(|error| format!("a counter name ({error})"))
}

/// Encodes registers in Redis format, as base64.
pub(crate) fn encoded(sketch: &Sketch) -> String {
    STANDARD.encode(sketch.to_redis_short())
}

/// Decodes registers. The error contains the expected format.
pub(crate) fn registers(text: &str) -> Result<Sketch, String> {
    Sketch::from_redis(&decoded(text)?).map_err(|error| format!("registers ({error})"))
}

/// Encodes bytes as base64.
#[cfg(feature = "unique")]
pub(crate) fn encoded_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64. The error contains the expected format.
pub(crate) fn decoded(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("base64 ({error})"))
}
