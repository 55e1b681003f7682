//! The fields of a line, shared by all formats.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::Duration;

use counter_core::Timestamp;
use counter_layer::Outcome;
use http::{HeaderName, StatusCode, Version};

use super::clock::{Clock, TimeForm};
use super::escapes::Escapes;
use crate::line::{Headers, Line, Piece};
use crate::malformed::Malformed;

/// The meaning of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// An ignored field.
    Skipped,
    Time(TimeForm),
    /// The date, in the W3C format with separate fields for date and time.
    Date,
    /// The time of day, in the W3C format with separate fields for date and time.
    TimeOfDay,
    Peer,
    /// `GET /path HTTP/1.1`.
    Request,
    Method,
    /// The target, as sent by the client.
    Target,
    /// A path, which may already be decoded, with an optional query.
    Path,
    Query,
    Protocol,
    Host,
    Status,
    Bytes,
    /// The time to the end of the response. The number is the units per second.
    Duration(u64),
    /// The time to the first byte of the response, in seconds.
    FirstByte,
    Header(HeaderName),
}

/// The fields of a line. The memory is reused for all lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    clock: Clock,
    found: Found,
    headers: Vec<(HeaderName, Piece)>,
    unescaped: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Found {
    at: Option<Timestamp>,
    date: Option<Piece>,
    time_of_day: Option<Piece>,
    peer: Option<IpAddr>,
    request: Option<Piece>,
    method: Option<Piece>,
    target: Option<Piece>,
    path: Option<Piece>,
    query: Option<Piece>,
    protocol: Option<Piece>,
    host: Option<Piece>,
    outcome: Option<Outcome>,
    bytes: Option<u64>,
    first_byte: Option<Duration>,
    duration: Option<Duration>,
}

/// Maximum number of headers in a line, including repeated headers in JSON.
const MAX_HEADERS: usize = 128;

impl Slot {
    /// Returns the slot of an nginx header variable, such as `http_user_agent`.
    pub(super) fn of_header_variable(name: &[u8]) -> Self {
        let mut buffer = [0; 64];
        let Some(name) = name.strip_prefix(b"http_") else { return Self::Skipped };
        let Some(header) = buffer.get_mut(..name.len()) else { return Self::Skipped };
        for (to, byte) in header.iter_mut().zip(name) {
            *to = if *byte == b'_' { b'-' } else { *byte };
        }
        HeaderName::from_bytes(header).map_or(Self::Skipped, Self::Header)
    }
}

impl Found {
    /// Returns the field that stores the text of a slot, or `None` if the slot is parsed or skipped. A later
    /// text overwrites an earlier text.
    #[inline]
    const fn text(&mut self, slot: &Slot) -> Option<&mut Option<Piece>> {
        Some(match slot {
            Slot::Date => &mut self.date,
            Slot::TimeOfDay => &mut self.time_of_day,
            Slot::Request => &mut self.request,
            Slot::Method => &mut self.method,
            Slot::Target => &mut self.target,
            Slot::Path => &mut self.path,
            Slot::Query => &mut self.query,
            Slot::Protocol => &mut self.protocol,
            _ => return None,
        })
    }
}

impl Fields {
    /// Clears the fields, to be reused for the next line.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.found = Found::default();
        self.headers.clear();
        self.unescaped.clear();
    }

    /// Stores the part of a line that belongs to a slot. For most slots, later parts are ignored.
    #[inline]
    pub(super) fn put(
        &mut self,
        line: &[u8],
        part: Range<usize>,
        slot: &Slot,
        escapes: Escapes,
    ) -> Result<(), Malformed> {
        let text = &line[part.clone()];
        // A missing value. For bytes, this means zero.
        if text == b"-" || text.is_empty() {
            if *slot == Slot::Bytes {
                self.found.bytes.get_or_insert(0);
            }
            return Ok(());
        }
        match slot {
            Slot::Skipped => {}
            Slot::Time(form) => {
                if self.found.at.is_none() {
                    self.found.at = Some(self.clock.read(form, text).ok_or(Malformed::Time)?);
                }
            }
            Slot::Peer => {
                if self.found.peer.is_none() {
                    self.found.peer = peer(text)?;
                }
            }
            Slot::Status => {
                if self.found.outcome.is_none() {
                    self.found.outcome = Some(outcome(text).ok_or(Malformed::Status)?);
                }
            }
            Slot::Bytes => self.found.bytes = self.found.bytes.or_else(|| number(text)),
            // Whole seconds are rounded down, so this would be 0 for most requests.
            Slot::Duration(1) if !text.contains(&b'.') => {}
            Slot::Duration(units_per_second) => {
                self.found.duration = self.found.duration.or_else(|| duration(text, *units_per_second));
            }
            Slot::FirstByte => self.found.first_byte = self.found.first_byte.or_else(|| duration(text, 1)),
            Slot::Header(name) => {
                if self.headers.len() < MAX_HEADERS {
                    let piece = self.piece(line, part, escapes);
                    self.headers.push((name.clone(), piece));
                }
            }
            Slot::Host => {
                if self.found.host.is_none() {
                    self.found.host = Some(self.piece(line, part, escapes));
                }
            }
            slot => {
                let piece = self.piece(line, part, escapes);
                if let Some(found) = self.found.text(slot) {
                    *found = Some(piece);
                }
            }
        }
        Ok(())
    }

    /// Sets the date for lines that only contain the time of day.
    pub(super) fn put_date(&mut self, date: &[u8]) {
        if self.found.date.is_none() {
            self.found.date = Some(self.append_text(|text| text.extend_from_slice(date)));
        }
    }

    #[inline]
    fn piece(&mut self, line: &[u8], part: Range<usize>, escapes: Escapes) -> Piece {
        if escapes.are_in(&line[part.clone()]) {
            return self.append_text(|text| escapes.write(&line[part], text));
        }
        Piece { start: part.start, end: part.end, is_unescaped: false }
    }

    #[cold]
    fn append_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Piece {
        let start = self.unescaped.len();
        write(&mut self.unescaped);
        Piece { start, end: self.unescaped.len(), is_unescaped: true }
    }

    /// Returns the request that the fields of `line` describe.
    pub(super) fn line<'a>(&'a mut self, line: &'a [u8]) -> Result<Line<'a>, Malformed> {
        if self.found.path.is_some() {
            self.join_target(line);
        }
        let at = self.time(line).ok_or(Malformed::Time)?;
        let found = &self.found;
        let unescaped = &*self.unescaped;
        let text = |piece: Option<Piece>| piece.map(|piece| piece.of(line, unescaped));
        let (method, target, version) = match text(found.request) {
            Some(request) => request_line(request).ok_or(Malformed::Request)?,
            None => {
                let method = text(found.method).ok_or(Malformed::Request)?;
                let target = text(found.target).ok_or(Malformed::Request)?;
                (method, target, text(found.protocol).and_then(version))
            }
        };
        Ok(Line {
            at,
            method,
            target,
            version,
            host: text(found.host),
            outcome: found.outcome.ok_or(Malformed::Status)?,
            peer: found.peer,
            bytes: found.bytes,
            first_byte: found.first_byte,
            duration: found.duration,
            headers: Headers { line, unescaped, pieces: &self.headers },
        })
    }

    fn time(&mut self, line: &[u8]) -> Option<Timestamp> {
        if let Some(at) = self.found.at {
            return Some(at);
        }
        let date = self.found.date?.of(line, &self.unescaped);
        let time = self.found.time_of_day?.of(line, &self.unescaped);
        // The buffer needs to be longer than a plain time, because some servers add a fraction.
        let mut text = [b'T'; 32];
        let length = date.len() + 1 + time.len();
        text.get_mut(..date.len())?.copy_from_slice(date);
        text.get_mut(date.len() + 1..length)?.copy_from_slice(time);
        self.clock.read(&TimeForm::Any, &text[..length])
    }

    /// Joins a path and a query. This encodes invalid characters, because the server might have decoded them.
    #[cold]
    fn join_target(&mut self, line: &[u8]) {
        let Some(path) = self.found.path.filter(|_| self.found.target.is_none()) else { return };
        let mut target = Vec::new();
        for (number, piece) in [Some(path), self.found.query].into_iter().flatten().enumerate() {
            let text = piece.of(line, &self.unescaped);
            if number == 1 && text.first() != Some(&b'?') {
                target.push(b'?');
            }
            for byte in text {
                match byte {
                    0x21..=0x7e if !b"\"#<>\\^`{|}".contains(byte) => target.push(*byte),
                    _ => {
                        let digits = b"0123456789ABCDEF";
                        let [high, low] = [byte >> 4, byte & 15].map(|digit| digits[usize::from(digit)]);
                        target.extend_from_slice(&[b'%', high, low]);
                    }
                }
            }
        }
        self.found.target = Some(self.append_text(|text| text.extend_from_slice(&target)));
    }
}

/// Splits a request line into method, target and version. A target must not contain spaces, but some clients
/// send spaces anyway, and some servers log these.
#[inline]
fn request_line(text: &[u8]) -> Option<(&[u8], &[u8], Option<Version>)> {
    let (method, rest) = text.split_at(memchr::memchr(b' ', text)?);
    let rest = &rest[1..];
    let (target, version) = match memchr::memrchr(b' ', rest) {
        Some(space) if rest[space + 1..].starts_with(b"HTTP/") => {
            (&rest[..space], version(&rest[space + 1..]))
        }
        _ => (rest, None),
    };
    (!method.is_empty() && !target.is_empty()).then_some((method, target, version))
}

fn version(text: &[u8]) -> Option<Version> {
    Some(match text {
        b"HTTP/1.1" => Version::HTTP_11,
        b"HTTP/2.0" | b"HTTP/2" => Version::HTTP_2,
        b"HTTP/3.0" | b"HTTP/3" => Version::HTTP_3,
        b"HTTP/1.0" => Version::HTTP_10,
        b"HTTP/0.9" => Version::HTTP_09,
        _ => return None,
    })
}

/// Parses an address with an optional port. Returns `None` for a Unix socket.
#[inline]
fn peer(text: &[u8]) -> Result<Option<IpAddr>, Malformed> {
    if text.starts_with(b"unix:") {
        return Ok(None);
    }
    let text = std::str::from_utf8(text).map_err(|_| Malformed::Address)?;
    text.parse().ok().or_else(|| peer_with_port(text)).map(Some).ok_or(Malformed::Address)
}

#[cold]
fn peer_with_port(text: &str) -> Option<IpAddr> {
    let (address, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => match text.split_once(':') {
            Some((address, _)) if address.contains('.') => {
                return address.parse::<Ipv4Addr>().ok().map(Into::into);
            }
            _ => (text, ""),
        },
    };
    // Strip the zone of a link-local address.
    let address = address.split('%').next()?;
    let end = rest.is_empty() || rest.starts_with(':');
    address.parse::<Ipv6Addr>().ok().filter(|_| end).map(Into::into)
}

/// Parses a status. If the client closed the connection, nginx logs 499, but other servers log 0.
#[inline]
fn outcome(text: &[u8]) -> Option<Outcome> {
    match text {
        b"499" | b"0" | b"000" => Some(Outcome::Aborted),
        [b'1'..=b'9', _, _] => StatusCode::from_bytes(text).ok().map(Outcome::Responded),
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit.into()) }
    })
}

/// Parses a duration with `units_per_second` units per second, and an optional fraction up to nanoseconds.
fn duration(text: &[u8], units_per_second: u64) -> Option<Duration> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        None => (text, &b""[..]),
        Some(point) => (&text[..point], &text[point + 1..]),
    };
    if whole.is_empty() {
        return None;
    }
    let (whole, mut nanoseconds) = (number(whole)?, 0);
    let mut unit = 1_000_000_000 / units_per_second;
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        unit /= 10;
        nanoseconds += unit * u64::from(digit);
    }
    let below =
        Duration::from_nanos(whole % units_per_second * (1_000_000_000 / units_per_second) + nanoseconds);
    Duration::from_secs(whole / units_per_second).checked_add(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_addresses_with_an_optional_port() {
        for (text, expected) in [
            ("192.0.2.1", Ok(Some("192.0.2.1"))),
            ("192.0.2.1:4711", Ok(Some("192.0.2.1"))),
            ("2001:db8::1", Ok(Some("2001:db8::1"))),
            ("[2001:db8::1]", Ok(Some("2001:db8::1"))),
            ("[2001:db8::1]:4711", Ok(Some("2001:db8::1"))),
            ("fe80::1%eth0", Ok(Some("fe80::1"))),
            ("unix:", Ok(None)),
            ("client.example.org", Err(Malformed::Address)),
            ("192.0.2.256", Err(Malformed::Address)),
            ("[2001:db8::1]x", Err(Malformed::Address)),
        ] {
            let expected = expected.map(|text| text.map(|text| text.parse().expect("an address")));
            assert_eq!(peer(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn request_lines_are_split_at_the_outer_spaces() {
        for (text, expected) in [
            ("GET / HTTP/1.1", Some(("GET", "/", Some(Version::HTTP_11)))),
            ("GET /a b HTTP/2.0", Some(("GET", "/a b", Some(Version::HTTP_2)))),
            ("GET / HTTP/7", Some(("GET", "/", None))),
            ("GET /old", Some(("GET", "/old", None))),
            ("GET", None),
            (" / HTTP/1.1", None),
            ("GET  HTTP/1.1", None),
            ("\u{16}\u{3}\u{1}", None),
        ] {
            let found = request_line(text.as_bytes());
            let expected =
                expected.map(|(method, target, version)| (method.as_bytes(), target.as_bytes(), version));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn durations_are_parsed_in_the_given_unit() {
        for (text, units_per_second, nanoseconds) in [
            ("0.005", 1, Some(5_000_000)),
            ("2", 1, Some(2_000_000_000)),
            ("1234567", 1_000_000, Some(1_234_567_000)),
            ("1.5", 1_000, Some(1_500_000)),
            ("0.0009296751234", 1, Some(929_675)),
            ("1.", 1, Some(1_000_000_000)),
            ("x", 1, None),
            (".", 1, None),
            ("1.x", 1, None),
        ] {
            let expected = nanoseconds.map(Duration::from_nanos);
            assert_eq!(duration(text.as_bytes(), units_per_second), expected, "{text}");
        }
        assert!(duration(u64::MAX.to_string().as_bytes(), 1).is_some());
    }
}
