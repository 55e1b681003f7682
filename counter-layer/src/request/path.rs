//! Normalises paths for matching.

use std::borrow::Cow;

/// Maximum length of a path to be matched.
pub(crate) const MAX_BYTES: usize = 8192;

/// Error returned for a path that can't be normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    /// The text is empty, `*` as in `OPTIONS *`, or the authority of a `CONNECT`.
    NotAPath,
    /// The path is too long. Contains the length in bytes.
    TooLong(usize),
}

/// Normalises the path up to the query. Returns a borrowed path if it is already normal.
pub(crate) fn normalise(raw: &str) -> Result<Cow<'_, str>, PathError> {
    if raw.len() <= MAX_BYTES && is_plain(raw) {
        return Ok(Cow::Borrowed(raw));
    }
    let path = raw.find(['?', '#']).map_or(raw, |end| &raw[..end]);
    if path.len() > MAX_BYTES {
        return Err(PathError::TooLong(path.len()));
    }
    let below_root = path.strip_prefix('/').ok_or(PathError::NotAPath)?;
    if is_normal(below_root) {
        return Ok(Cow::Borrowed(path));
    }
    let mut normal = String::with_capacity(path.len());
    let mut trailing_slash = true;
    for raw_segment in below_root.split('/') {
        let before = normal.len();
        normal.push('/');
        // Remove parameters before decoding, because `;` starts a parameter, but `%3B` is part of the name.
        write(raw_segment.split(';').next().unwrap_or_default(), &mut normal);
        trailing_slash = matches!(&normal[before..], "/" | "/." | "/..");
        if trailing_slash {
            let up = normal.ends_with("..");
            normal.truncate(before);
            if up {
                normal.truncate(normal.rfind('/').unwrap_or_default());
            }
        }
    }
    if trailing_slash {
        normal.push('/');
    }
    Ok(Cow::Owned(normal))
}

/// Encodes all characters like in a normal path, but keeps `/` and dots.
pub(crate) fn normalise_text(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    write(text, &mut normal);
    normal
}

/// Returns `true` if the text contains a percent-encoding that is not allowed in a normal path.
pub(crate) fn has_denormal_encoding(text: &str) -> bool {
    Characters(text.as_bytes()).any(|character| character.raw.len() > 1 && !character.is_normal())
}

/// Returns `true` if a quick scan shows that the path is already normal, which is the common case.
// This scans all bytes even if the result is known, because a branch per byte would be slower.
pub(crate) fn is_plain(path: &str) -> bool {
    let (mut odd, mut before) = (0, 0);
    for byte in path.bytes() {
        let class = CLASSES[usize::from(byte)];
        odd |= class & ((before / SLASH) | ODD);
        before = class;
    }
    odd == 0 && path.starts_with('/')
}

/// Class of bytes that need a closer check after a slash, i.e. `/` and `.`.
const ODD_AFTER_SLASH: u8 = 1;
const SLASH: u8 = 2;
/// Class of bytes that always need a closer check.
const ODD: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [ODD; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'/' => SLASH | ODD_AFTER_SLASH,
            b'.' => ODD_AFTER_SLASH,
            _ if is_path_byte(byte) && byte != b';' => 0,
            _ => ODD,
        };
        byte += 1;
    }
    classes
};

fn is_normal(below_root: &str) -> bool {
    let mut segments = below_root.split('/').peekable();
    while let Some(segment) = segments.next() {
        let empty_inside = segment.is_empty() && segments.peek().is_some();
        if empty_inside || segment == "." || segment == ".." || segment.contains(';') {
            return false;
        }
        if !Characters(segment.as_bytes()).all(Character::is_normal) {
            return false;
        }
    }
    true
}

fn write(text: &str, normal: &mut String) {
    for Character { byte, encoded, .. } in Characters(text.as_bytes()) {
        if encoded {
            normal.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        } else {
            normal.push(char::from(byte));
        }
    }
}

fn hex(digit: u8) -> char {
    char::from_digit(digit.into(), 16).map_or('0', |digit| digit.to_ascii_uppercase())
}

/// Iterates over the bytes of a text and decodes percent-encodings.
pub(crate) struct Characters<'a>(pub(crate) &'a [u8]);

#[derive(Clone, Copy)]
pub(crate) struct Character<'a> {
    pub(crate) byte: u8,
    /// This character must be percent-encoded in a normal path.
    encoded: bool,
    /// The byte or its encoding, as sent.
    pub(crate) raw: &'a [u8],
}

impl Character<'_> {
    fn is_normal(self) -> bool {
        match self.raw {
            [_] => !self.encoded,
            raw => self.encoded && !raw.iter().any(u8::is_ascii_lowercase),
        }
    }
}

impl<'a> Iterator for Characters<'a> {
    type Item = Character<'a>;

    fn next(&mut self) -> Option<Character<'a>> {
        let (byte, encoded, length) = match *self.0 {
            [] => return None,
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let byte = nibble(high) << 4 | nibble(low);
                (byte, !is_unreserved(byte), 3)
            }
            [byte, ..] => (byte, !is_path_byte(byte), 1),
        };
        let (raw, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(Character { byte, encoded, raw })
    }
}

const fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns `true` for a literal `pchar` (RFC 3986) and for the slash. A percent sign is only allowed as part
/// of an encoding, because otherwise it could form a new encoding with the decoded characters that follow.
const fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
        || matches!(byte, b':' | b'@' | b'/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_normalised() {
        for (raw, normal) in [
            ("/", "/"),
            ("/articles/7", "/articles/7"),
            ("/articles/7/", "/articles/7/"),
            ("/-._~!$&'()*+,=:@", "/-._~!$&'()*+,=:@"),
            // Path parameters are removed from all segments.
            ("/a;jsessionid=1", "/a"),
            ("/a;x=1/b;y;z=2", "/a/b"),
            ("/a/;x", "/a/"),
            ("/;x/a", "/a"),
            ("/a%3Bx", "/a%3Bx"),
            // Unreserved characters are decoded once; other encodings are kept, in upper case.
            ("/%61%2D%7E", "/a-~"),
            ("/%2561", "/%2561"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%2Fb", "/a%2Fb"),
            // A character that is not allowed in a path equals the encoding.
            ("/caf\u{e9}", "/caf%C3%A9"),
            ("/caf%c3%a9", "/caf%C3%A9"),
            ("/{id}|\"", "/%7Bid%7D%7C%22"),
            // Not UTF-8, and not an encoding.
            ("/%ff%FE", "/%FF%FE"),
            ("/100%", "/100%25"),
            ("/%zz%4", "/%25zz%254"),
            // If we kept the first percent sign, it would form an encoding with the decoded character.
            ("/%a%35", "/%25a5"),
            ("/%%34%31", "/%2541"),
            // Slashes are merged before dots are resolved.
            ("//", "/"),
            ("//a///b//", "/a/b/"),
            ("/a//../b", "/b"),
            ("/a/;x/../b", "/b"),
            // Dots can't go above the root.
            ("/a/./b", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/../../a", "/a"),
            ("/a/../..", "/"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/..;x/b", "/b"),
            ("/a/...", "/a/..."),
            ("/.well-known/a", "/.well-known/a"),
            // A query or fragment is not part of a path.
            ("/a?b=/c", "/a"),
            ("/a#b", "/a"),
        ] {
            let found = normalise(raw).expect("a path");
            assert_eq!(found, normal, "{raw}");
            let is_query = raw.strip_prefix(normal).is_some_and(|rest| rest.starts_with(['?', '#']));
            assert_eq!(matches!(found, Cow::Borrowed(_)), raw == normal || is_query, "{raw}");
        }
    }

    #[test]
    fn invalid_and_long_paths_are_rejected() {
        for raw in ["", "*", "example.com:443", "articles", "?a", "http://example.com/"] {
            assert_eq!(normalise(raw), Err(PathError::NotAPath), "{raw}");
        }
        let longest = format!("/{}", "a".repeat(MAX_BYTES - 1));
        assert_eq!(normalise(&longest).as_deref(), Ok(&*longest));
        assert_eq!(normalise(&format!("{longest}a")), Err(PathError::TooLong(MAX_BYTES + 1)));
    }

    proptest! {
        #[test]
        fn normalising_is_idempotent(raw in "/([a./;%25eE\u{e9}{]|%[23][eEfF5]|//|\\.\\.){0,12}") {
            let normal = normalise(&raw).expect("a path").into_owned();
            prop_assert_eq!(normalise(&normal), Ok(Cow::Borrowed(&*normal)));
        }
    }
}
