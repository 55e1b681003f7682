//! The fields of a line, shared by all formats.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use counter_core::Timestamp;
use counter_layer::Outcome;
use counter_layer::internal::address;
use http::header::{REFERER, USER_AGENT};
use http::{HeaderName, StatusCode, Version};
use jiff::tz::TimeZone;

use super::clock::{Clock, TimeForm};
use super::escapes::Escapes;
use crate::line::{Header, Headers, Line, LoggedHeader, Piece};
use crate::malformed::Malformed;

/// The meaning of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// An ignored field.
    Skipped,
    Time(TimeForm),
    /// The date in UTC, in the W3C format with separate fields for date and time.
    Date,
    /// The time of day in UTC, in the W3C format with separate fields for date and time.
    TimeOfDay,
    /// The date in the time zone of the server.
    LocalDate,
    /// The time of day in the time zone of the server.
    LocalTimeOfDay,
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
    /// The time to the end of the response: in seconds if it has a fraction, otherwise in milliseconds.
    TimeTaken,
    /// The time to the first byte of the response. The number is the units per second.
    FirstByte(u64),
    Header(HeaderName),
}

/// A field of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) slot: Slot,
    /// Of two fields with the same meaning, the one with the lower rank is used, or else the first.
    pub(super) rank: u8,
}

/// The fields of a line. The memory is reused for all lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    clock: Clock,
    found: Found,
    headers: Vec<LoggedHeader>,
    unescaped: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Found {
    at: Best<Timestamp>,
    date: Best<Piece>,
    time_of_day: Best<Piece>,
    peer: Best<IpAddr>,
    request: Best<Piece>,
    method: Best<Piece>,
    /// True if the method is logged, but the request does not have one.
    has_no_method: bool,
    target: Best<Piece>,
    path: Best<Piece>,
    query: Best<Piece>,
    protocol: Best<Piece>,
    host: Best<Piece>,
    outcome: Best<Outcome>,
    bytes: Best<u64>,
    first_byte: Best<Duration>,
    duration: Best<Duration>,
    /// True if the log contains all headers that the client sent.
    has_all_headers: bool,
    has_unreadable_status: bool,
}

/// The value of the field with the lowest rank.
#[derive(Clone, Copy, Debug)]
struct Best<T>(Option<(u8, T)>);

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum number of headers in a line, including repeated headers in JSON.
const MAX_HEADERS: usize = 128;

/// The rank of a header that is missing if no field contains it.
const LAST_RANK: u8 = u8::MAX;

impl Slot {
    pub(super) const fn rank(self, rank: u8) -> Field {
        Field { slot: self, rank }
    }
}

impl From<Slot> for Field {
    fn from(slot: Slot) -> Self {
        slot.rank(0)
    }
}

impl<T: Copy> Best<T> {
    /// Uses a value, unless there is one with the same rank or a lower one.
    #[inline]
    fn offer(&mut self, rank: u8, value: impl FnOnce() -> Option<T>) {
        if self.0.is_none_or(|(best, _)| rank < best)
            && let Some(value) = value()
        {
            self.0 = Some((rank, value));
        }
    }

    fn get(self) -> Option<T> {
        self.0.map(|(_, value)| value)
    }
}

impl<T> Default for Best<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl Found {
    /// Returns the field that stores the text of a slot, or `None` if the slot is parsed or skipped.
    #[inline]
    const fn text(&mut self, slot: &Slot) -> Option<&mut Best<Piece>> {
        Some(match slot {
            Slot::Date | Slot::LocalDate => &mut self.date,
            Slot::TimeOfDay | Slot::LocalTimeOfDay => &mut self.time_of_day,
            Slot::Request => &mut self.request,
            Slot::Method => &mut self.method,
            Slot::Target => &mut self.target,
            Slot::Path => &mut self.path,
            Slot::Query => &mut self.query,
            Slot::Protocol => &mut self.protocol,
            Slot::Host => &mut self.host,
            _ => return None,
        })
    }
}

impl Fields {
    /// Creates fields that read times without a time zone as local times of this zone, which is UTC by default.
    pub(super) fn new(zone: Option<TimeZone>) -> Self {
        Self { clock: Clock::new(zone), ..Self::default() }
    }

    /// Clears the fields, to be reused for the next line.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.clock.lacks_zone = false;
        self.found = Found::default();
        self.headers.clear();
        self.unescaped.clear();
    }

    /// Stores the part of a line that belongs to a field.
    #[inline]
    pub(super) fn put(&mut self, line: &[u8], part: Range<usize>, field: &Field, escapes: Escapes) {
        let text = &line[part.clone()];
        if text == b"-" || text.is_empty() {
            return self.put_missing(field);
        }
        let (found, rank) = (&mut self.found, field.rank);
        match &field.slot {
            Slot::Skipped => {}
            Slot::Time(form) => found.at.offer(rank, || self.clock.read(form, text)),
            Slot::Peer => {
                found.peer.offer(rank, || address(text));
                if found.peer.0.is_none() && memchr::memchr(b',', text).is_some() {
                    self.put_peers(line, part, rank, escapes);
                }
            }
            Slot::Status => {
                let outcome = outcome(text);
                found.has_unreadable_status |= outcome.is_none();
                found.outcome.offer(rank, || outcome);
            }
            Slot::Bytes => found.bytes.offer(rank, || number(text)),
            // Whole seconds are rounded down, so this would be 0 for most requests.
            Slot::Duration(1) if memchr::memchr(b'.', text).is_none() => {}
            Slot::Duration(units_per_second) => {
                found.duration.offer(rank, || duration(text, *units_per_second));
            }
            Slot::TimeTaken => {
                let units_per_second = if memchr::memchr(b'.', text).is_some() { 1 } else { 1_000 };
                found.duration.offer(rank, || duration(text, units_per_second));
            }
            Slot::FirstByte(units_per_second) => {
                found.first_byte.offer(rank, || duration(text, *units_per_second));
            }
            Slot::Header(name) => {
                let value = Header::Sent(self.piece(line, part, escapes));
                self.put_header(name, rank, value);
            }
            slot => {
                let piece = self.piece(line, part, escapes);
                if let Some(found) = self.found.text(slot) {
                    found.offer(rank, || Some(piece));
                }
            }
        }
    }

    /// Notes that a field does not have a value. For a size, this means zero.
    fn put_missing(&mut self, field: &Field) {
        match &field.slot {
            Slot::Bytes => self.found.bytes.offer(field.rank, || Some(0)),
            Slot::Method => self.found.has_no_method = true,
            Slot::Header(name) => self.put_header(name, field.rank, Header::NotSent),
            _ => {}
        }
    }

    /// Adds a header. Repeated headers have the same rank. Of two fields, one with a value is better than one without.
    #[inline]
    pub(super) fn put_header(&mut self, name: &HeaderName, rank: u8, value: Header<Piece>) {
        let worth = |value: &Header<Piece>, rank: u8| (value.sent().is_none(), rank);
        let other = self.headers.iter().position(|header| header.name == name && header.rank != rank);
        if let Some(at) = other {
            let other = &mut self.headers[at];
            if worth(&value, rank) < worth(&other.value, other.rank) {
                (other.rank, other.value) = (rank, value);
            }
        } else if self.headers.len() < MAX_HEADERS {
            self.headers.push(LoggedHeader { name: name.clone(), rank, value });
        }
    }

    /// Stores a list of addresses instead of the peer, as in a log with `X-Forwarded-For` in place of the address. If
    /// only one of them is public, this is the client.
    #[cold]
    fn put_peers(&mut self, line: &[u8], part: Range<usize>, rank: u8, escapes: Escapes) {
        let mut public = line[part.clone()]
            .split(|byte| *byte == b',')
            .filter_map(|entry| address(entry.trim_ascii()).filter(|address| !is_private(*address)));
        if let (Some(client), None) = (public.next(), public.next()) {
            self.found.peer.offer(rank, || Some(client));
        }
        let value = Header::Sent(self.piece(line, part, escapes));
        self.put_header(&X_FORWARDED_FOR, LAST_RANK, value);
    }

    /// Declares that the log contains all headers that the client sent.
    pub(super) fn put_all_headers(&mut self) {
        self.found.has_all_headers = true;
    }

    /// Declares that the client did not send the user agent and the referrer, unless a field contains them.
    pub(super) fn put_client_headers(&mut self) {
        for name in [USER_AGENT, REFERER] {
            self.put_header(&name, LAST_RANK, Header::NotSent);
        }
    }

    /// Sets the time for lines that do not contain a time.
    pub(super) fn put_time(&mut self, time: &[u8]) {
        self.found.at.offer(LAST_RANK, || self.clock.read(&TimeForm::Any, time));
    }

    /// Sets the date for lines that only contain the time of day.
    pub(super) fn put_date(&mut self, date: &[u8]) {
        if self.found.date.0.is_none() {
            let date = self.append_text(|text| text.extend_from_slice(date));
            self.found.date.offer(0, || Some(date));
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
        self.join_target(line);
        let at = self.time(line).ok_or(Malformed::Time)?;
        let found = &self.found;
        let unescaped = &*self.unescaped;
        let text = |piece: Best<Piece>| piece.get().map(|piece| piece.of(line, unescaped));
        let outcome = match found.outcome.get() {
            Some(outcome) => outcome,
            None if found.has_unreadable_status => return Err(Malformed::Status),
            None => Outcome::Unknown,
        };
        let (method, target, version) = match text(found.request) {
            Some(request) => {
                let (method, target, version) = request_line(request).ok_or(Malformed::Request)?;
                (Some(method), target, version)
            }
            None => {
                let method = text(found.method);
                if found.has_no_method && method.is_none() {
                    return Err(Malformed::Request);
                }
                (
                    method,
                    text(found.target).ok_or(Malformed::Request)?,
                    text(found.protocol).and_then(version),
                )
            }
        };
        Ok(Line {
            at,
            method,
            target,
            version,
            host: text(found.host),
            outcome,
            peer: found.peer.get(),
            bytes: found.bytes.get(),
            first_byte: found.first_byte.get(),
            duration: found.duration.get(),
            headers: Headers { line, unescaped, pieces: &self.headers, are_complete: found.has_all_headers },
            lacks_zone: self.clock.lacks_zone,
        })
    }

    fn time(&mut self, line: &[u8]) -> Option<Timestamp> {
        if let Some(at) = self.found.at.get() {
            return Some(at);
        }
        let (rank, date) = self.found.date.0?;
        let date = date.of(line, &self.unescaped);
        let time = self.found.time_of_day.get()?.of(line, &self.unescaped);
        // The buffer needs to be longer than a plain time, because some servers add a fraction.
        let mut text = [b'T'; 32];
        let length = date.len() + 1 + time.len();
        text.get_mut(..date.len())?.copy_from_slice(date);
        text.get_mut(date.len() + 1..length)?.copy_from_slice(time);
        let form = if rank == 0 { TimeForm::Utc } else { TimeForm::Any };
        self.clock.read(&form, &text[..length])
    }

    /// Joins a path and a query. This encodes invalid characters, because the server might have decoded them.
    fn join_target(&mut self, line: &[u8]) {
        let Found { request, target, path, query, .. } = self.found;
        if request.0.is_some() || (target.0.is_some() && query.0.is_none()) {
            return;
        }
        let Some(first) = target.get().or(path.get()) else { return };
        let text = first.of(line, &self.unescaped);
        let query = query.get().filter(|_| memchr::memchr(b'?', text).is_none());
        let is_valid = |text: &[u8]| target.0.is_some() || text.iter().all(|byte| is_of_target(*byte));
        let whole = match query {
            None if is_valid(text) => first,
            query => self.joined(line, first, query, target.0.is_some()),
        };
        self.found.target = Best(Some((0, whole)));
    }

    #[cold]
    fn joined(&mut self, line: &[u8], first: Piece, query: Option<Piece>, is_as_sent: bool) -> Piece {
        let mut target = Vec::new();
        for (number, piece) in [Some(first), query].into_iter().flatten().enumerate() {
            let text = piece.of(line, &self.unescaped);
            if number == 1 && text.first() != Some(&b'?') {
                target.push(b'?');
            }
            for byte in text {
                if is_of_target(*byte) || is_as_sent {
                    target.push(*byte);
                } else {
                    let digits = b"0123456789ABCDEF";
                    let [high, low] = [byte >> 4, byte & 15].map(|digit| digits[usize::from(digit)]);
                    target.extend_from_slice(&[b'%', high, low]);
                }
            }
        }
        self.append_text(|text| text.extend_from_slice(&target))
    }
}

/// Returns `true` for the bytes that a target can contain.
#[inline]
const fn is_of_target(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e)
        && !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}

/// Returns `true` for the addresses of a private network, of a link, or of the machine itself.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            // Includes the shared addresses of RFC 6598.
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_unique_local() || address.is_loopback() || address.is_unicast_link_local()
        }
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
        b"HTTP/1.1" | b"1.1" => Version::HTTP_11,
        b"HTTP/2.0" | b"HTTP/2" | b"2.0" | b"2" => Version::HTTP_2,
        b"HTTP/3.0" | b"HTTP/3" | b"3.0" | b"3" => Version::HTTP_3,
        b"HTTP/1.0" | b"1.0" => Version::HTTP_10,
        b"HTTP/0.9" => Version::HTTP_09,
        _ => return None,
    })
}

/// Parses a status. If the client closed the connection, nginx logs 499, but other servers log 0 or -1.
#[inline]
fn outcome(text: &[u8]) -> Option<Outcome> {
    match text {
        b"499" | b"0" | b"000" | b"-1" => Some(Outcome::Aborted),
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
    // Google writes `0.005s`.
    let text = text.strip_suffix(b"s").unwrap_or(text);
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
