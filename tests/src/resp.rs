//! A minimal implementation of the Redis protocol: encoding commands and decoding complete frames.
//!
//! RESP2 is fully supported. RESP3 types are mapped to the most similar RESP2 type, so that clients can send
//! `HELLO 3`.

use std::error::Error;
use std::fmt;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A status such as `OK`. Also used for the text of a RESP3 double, boolean or big number.
    Simple(String),
    /// An error, including the code, e.g. `NOSCRIPT No matching script.`
    Error(String),
    /// An integer.
    Int(i64),
    /// A byte string.
    Bulk(Vec<u8>),
    /// An array. Also used for a RESP3 set or push, and for a map as alternating keys and values.
    Array(Vec<Self>),
    /// A missing value.
    Nil,
}

impl Value {
    /// Returns a string, status or integer as text, or `None` for other types.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Simple(text) => Some(text.clone()),
            Self::Bulk(bytes) => String::from_utf8(bytes.clone()).ok(),
            Self::Int(number) => Some(number.to_string()),
            Self::Error(_) | Self::Array(_) | Self::Nil => None,
        }
    }
}

/// Error for bytes that are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed frame: {}", self.0)
    }
}

impl Error for Malformed {}

/// Encodes a command.
pub fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Decodes the frame at the start of `bytes`, and returns the value and the length. Returns `None` if the
/// frame is incomplete.
///
/// # Errors
///
/// Returns [`Malformed`] if the bytes can't be the start of a frame.
pub fn decode(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    match cursor.value() {
        Ok(value) => Ok(Some((value, cursor.at))),
        Err(Halt::Incomplete) => Ok(None),
        Err(Halt::Malformed(what)) => Err(Malformed(what)),
    }
}

/// Reason why a value can't be decoded.
enum Halt {
    Incomplete,
    Malformed(&'static str),
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn value(&mut self) -> Result<Value, Halt> {
        let Some((&kind, rest)) = self.line()?.split_first() else {
            return Err(Halt::Malformed("an empty line"));
        };
        match kind {
            b'+' | b',' | b'(' | b'#' => Ok(Value::Simple(lossy(rest))),
            b'-' => Ok(Value::Error(lossy(rest))),
            b':' => Ok(Value::Int(number(rest)?)),
            b'_' => Ok(Value::Nil),
            b'$' | b'=' => self.bulk(rest, Value::Bulk),
            b'!' => self.bulk(rest, |bytes| Value::Error(lossy(&bytes))),
            b'*' | b'~' | b'>' => self.array(rest, 1),
            b'%' => self.array(rest, 2),
            b'|' => {
                // An attribute is not a reply. It precedes the reply that it describes.
                self.array(rest, 2)?;
                self.value()
            }
            _ => Err(Halt::Malformed("an unknown type")),
        }
    }

    fn bulk(&mut self, length: &[u8], make: impl Fn(Vec<u8>) -> Value) -> Result<Value, Halt> {
        let Some(length) = length_of(length)? else {
            return Ok(Value::Nil);
        };
        let rest = &self.bytes[self.at..];
        if rest.len() < length.saturating_add(2) {
            return Err(Halt::Incomplete);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err(Halt::Malformed("a string longer than announced"));
        }
        self.at += length + 2;
        Ok(make(rest[..length].to_vec()))
    }

    fn array(&mut self, length: &[u8], values_each: usize) -> Result<Value, Halt> {
        let Some(length) = length_of(length)? else {
            return Ok(Value::Nil);
        };
        (0..length.saturating_mul(values_each))
            .map(|_| self.value())
            .collect::<Result<_, _>>()
            .map(Value::Array)
    }

    fn line(&mut self) -> Result<&'a [u8], Halt> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            return Err(Halt::Incomplete);
        };
        self.at += length + 2;
        Ok(&rest[..length])
    }
}

/// Parses a length. Returns `None` for −1, which is nil in RESP2.
fn length_of(digits: &[u8]) -> Result<Option<usize>, Halt> {
    match number(digits)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| Halt::Malformed("a negative length")),
    }
}

fn number(digits: &[u8]) -> Result<i64, Halt> {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .ok_or(Halt::Malformed("not a number"))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Value, decode, encode};

    fn check(bytes: &[u8], expected: &Value) {
        let mut more = bytes.to_vec();
        more.extend_from_slice(b"+NEXT\r\n");
        assert_eq!(decode(&more), Ok(Some((expected.clone(), bytes.len()))));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), Ok(None), "cut at {end}");
        }
    }

    #[test]
    fn frames_are_decoded_only_when_complete() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        check(b"+OK\r\n", &Value::Simple("OK".to_owned()));
        check(b"-ERR no\r\n", &Value::Error("ERR no".to_owned()));
        check(b":-7\r\n", &Value::Int(-7));
        check(b"$4\r\na\r\nb\r\n", &bulk("a\r\nb"));
        check(b"$0\r\n\r\n", &bulk(""));
        check(b"$-1\r\n", &Value::Nil);
        check(b"*-1\r\n", &Value::Nil);
        check(b"*0\r\n", &Value::Array(Vec::new()));
        check(
            b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            &Value::Array(vec![Value::Array(vec![Value::Int(1)]), bulk("x")]),
        );
        check(b"%1\r\n$5\r\nproto\r\n:3\r\n", &Value::Array(vec![bulk("proto"), Value::Int(3)]));
        check(b"|1\r\n+ttl\r\n:9\r\n_\r\n", &Value::Nil);
        check(&encode(&["GET", "key"]), &Value::Array(vec![bulk("GET"), bulk("key")]));
    }

    #[test]
    fn malformed_frames_are_errors() {
        for bytes in ["PING\r\n", "\r\n", ":x\r\n", "$-2\r\n", "$1\r\nabc\r\n"] {
            assert!(decode(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }
}
