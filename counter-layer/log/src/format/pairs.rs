//! Lines with names and values: LTSV (`status:200`, separated by tabs) and logfmt (`status=200`, separated by spaces).

use super::escapes::Escapes;
use super::fields::{Field, Fields, Slot};
use super::names::{self, Name};
use crate::malformed::Malformed;

/// The notation of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    /// [Labeled tab-separated values](http://ltsv.org/).
    Ltsv,
    /// Pairs of Heroku and of many programs in Go. Text with spaces is in quotation marks.
    Logfmt,
}

impl Pairs {
    /// Parses a line into `fields`.
    pub(super) fn read(self, line: &[u8], fields: &mut Fields) -> Result<(), Malformed> {
        let (equals, between) = match self {
            Self::Ltsv => (b':', b'\t'),
            Self::Logfmt => (b'=', b' '),
        };
        let (mut at, mut pairs) = (0, 0);
        while at < line.len() {
            let end = memchr::memchr2(equals, between, &line[at..]).map_or(line.len(), |end| at + end);
            let name = &line[at..end];
            at = end + 1;
            // A word without a value.
            if line.get(end) != Some(&equals) {
                continue;
            }
            pairs += 1;
            let field = self.field(name);
            if self == Self::Logfmt && line.get(at) == Some(&b'"') {
                let length = closing_quote(&line[at + 1..]).ok_or(Malformed::Fields)?;
                fields.put(line, at + 1..at + 1 + length, &field, Escapes::Json);
                at += length + 2;
            } else {
                let length = memchr::memchr(between, &line[at..]).unwrap_or(line.len() - at);
                fields.put(line, at..at + length, &field, Escapes::None);
                at += length;
            }
            at += usize::from(at < line.len());
        }
        if pairs > 1 { Ok(()) } else { Err(Malformed::Fields) }
    }

    fn field(self, name: &[u8]) -> Field {
        match (self, name) {
            // In LTSV, this is the client, and the site is `vhost`.
            (Self::Ltsv, b"host") => Slot::Peer.rank(1),
            _ => names::field(name, &Name::EMPTY.join(name)),
        }
    }
}

/// Returns the position of the quotation mark that is not escaped.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[found] == b'"' {
            return Some(found);
        }
        at = found + 2;
    }
}
