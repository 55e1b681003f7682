//! Escape sequences.

/// The kind of escape sequences in a log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    None,
    /// `\"`, `\\`, `\n` and `\x16`, in Apache and nginx.
    Backslash,
    /// JSON escapes.
    Json,
    /// `+` for a space, in IIS.
    Plus,
    /// `%20`, in `CloudFront`.
    Percent,
    /// `%20` or `%2520`, in user agents of `CloudFront`. Old logs encode these twice.
    Percents,
}

impl Escapes {
    /// Returns `true` if a text might contain escape sequences.
    #[inline]
    pub(super) fn are_in(self, text: &[u8]) -> bool {
        let mark = match self {
            Self::None => return false,
            Self::Backslash | Self::Json => b'\\',
            Self::Plus => b'+',
            Self::Percent | Self::Percents => b'%',
        };
        memchr::memchr(mark, text).is_some()
    }

    /// Appends the unescaped text. Invalid escape sequences are copied unchanged.
    pub(super) fn write(self, text: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::None => to.extend_from_slice(text),
            Self::Plus => to.extend(text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte })),
            Self::Backslash => write(text, b'\\', backslash, to),
            Self::Json => write(text, b'\\', json, to),
            Self::Percent => write(text, b'%', |rest| Some((hex(rest, 2)?.into(), 2)), to),
            Self::Percents => {
                let mut once = Vec::with_capacity(text.len());
                Self::Percent.write(text, &mut once);
                let is_encoded = memchr::memmem::find(&once, b"%20").is_some() && !once.contains(&b' ');
                if is_encoded { Self::Percent.write(&once, to) } else { to.extend_from_slice(&once) }
            }
        }
    }
}

/// An unescaped character or byte.
enum Unescaped {
    Byte(u8),
    Char(char),
}

impl From<u16> for Unescaped {
    fn from(byte: u16) -> Self {
        // `\x` and `%` sequences always have two digits, so this fits into a byte.
        Self::Byte(byte.to_le_bytes()[0])
    }
}

/// Appends the unescaped text. `mark` starts an escape sequence; `read` decodes the bytes after it, and
/// returns how many belong to the sequence.
fn write(text: &[u8], mark: u8, read: impl Fn(&[u8]) -> Option<(Unescaped, usize)>, to: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(mark, rest) {
        to.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match read(rest) {
            None => to.push(mark),
            Some((unescaped, length)) => {
                match unescaped {
                    Unescaped::Byte(byte) => to.push(byte),
                    Unescaped::Char(char) => to.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
                }
                rest = &rest[length..];
            }
        }
    }
    to.extend_from_slice(rest);
}

fn backslash(rest: &[u8]) -> Option<(Unescaped, usize)> {
    let byte = match rest.first()? {
        b'x' => return Some((hex(&rest[1..], 2)?.into(), 3)),
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'v' => 11,
        byte @ (b'"' | b'\\') => *byte,
        _ => return None,
    };
    Some((Unescaped::Byte(byte), 1))
}

fn json(rest: &[u8]) -> Option<(Unescaped, usize)> {
    let byte = match rest.first()? {
        b'u' => return json_unit(&rest[1..]).map(|(char, length)| (Unescaped::Char(char), 1 + length)),
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        byte @ (b'"' | b'\\' | b'/') => *byte,
        _ => return None,
    };
    Some((Unescaped::Byte(byte), 1))
}

/// Decodes a character of one or two UTF-16 units. An unpaired surrogate is replaced by the replacement
/// character.
fn json_unit(rest: &[u8]) -> Option<(char, usize)> {
    let first = hex(rest, 4)?;
    let second = rest[4..].strip_prefix(b"\\u").and_then(|rest| hex(rest, 4));
    if let Some(second) = second
        && let Some(Ok(char)) = char::decode_utf16([first, second]).next()
        && char.len_utf16() == 2
    {
        return Some((char, 10));
    }
    Some((char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), 4))
}

fn hex(text: &[u8], digits: usize) -> Option<u16> {
    text.get(..digits)?.iter().try_fold(0, |number, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(number << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unescaped(escapes: Escapes, text: &[u8]) -> Vec<u8> {
        let mut to = Vec::new();
        escapes.write(text, &mut to);
        to
    }

    #[test]
    fn formats_use_different_escapes() {
        for (escapes, text, expected) in [
            (Escapes::None, r#"a\"b"#, r#"a\"b"#),
            (Escapes::Backslash, r#"a\"b\\n\x41\t"#, "a\"b\\nA\t"),
            (Escapes::Backslash, r"\x4\xg1\q\", r"\x4\xg1\q\"),
            (Escapes::Json, r#"a\"b\\\/\n"#, "a\"b\\/\n"),
            (Escapes::Json, r"\u00e9\ud83d\ude00\ud83d\u0041", "é😀\u{fffd}A"),
            (Escapes::Json, r"\u00e\q\", r"\u00e\q\"),
            (Escapes::Plus, "Mozilla/5.0+(X11)", "Mozilla/5.0 (X11)"),
            (Escapes::Percent, "Mozilla/5.0%20(X11)%2", "Mozilla/5.0 (X11)%2"),
            (Escapes::Percent, "Mozilla/5.0%2520(X11)", "Mozilla/5.0%20(X11)"),
            (Escapes::Percents, "Mozilla/5.0%20(X11)%2520", "Mozilla/5.0 (X11)%20"),
            (Escapes::Percents, "Mozilla/5.0%2520(X11)", "Mozilla/5.0 (X11)"),
        ] {
            assert_eq!(unescaped(escapes, text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic_and_plain_text_is_unchanged(text in r#"[\\%+"ux0-9a-fd8]{0,30}"#, bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            for escapes in [Escapes::None, Escapes::Backslash, Escapes::Json, Escapes::Plus, Escapes::Percent, Escapes::Percents] {
                unescaped(escapes, text.as_bytes());
                let written = unescaped(escapes, &bytes);
                if !escapes.are_in(&bytes) {
                    prop_assert_eq!(written, bytes.clone());
                }
            }
        }

        #[test]
        fn json_strings_round_trip(text in r#"(\PC|[\x00-\x1f"\\]){0,30}"#) {
            let json = serde_json::to_string(&text).expect("a text");
            prop_assert_eq!(unescaped(Escapes::Json, &json.as_bytes()[1..json.len() - 1]), text.as_bytes());
        }
    }
}
