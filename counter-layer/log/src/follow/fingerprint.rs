use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};

use counter_core::VisitorId;
use counter_core::visitor::VisitorKey;

use crate::format::MAX_LINE;

/// The identity of a log file: a hash of its first line, without addresses.
///
/// It stays the same when the file is renamed, copied or compressed, and while it grows; a file that was truncated and
/// written anew has another. So the parts of a log that a rotation leaves behind are each the same source, at the same
/// positions, under whatever name. A file whose first line has not ended has no identity yet.
///
/// Lines at the beginning that start with `#` count with the first that does not: in the W3C's format all logs begin
/// with the same of them. Two logs whose first requests have the same line have the same fingerprint; a source should
/// have the name of its server or site as well, and a [`LogIndex`](crate::LogIndex) tells such logs apart.
///
/// The key of the hash is public, so that the identity depends on nothing but the file. A hash of an address under such
/// a key could be found by trying all addresses, so everything that reads as an address is left out of the hash.
///
/// ```
/// use counter_log::Fingerprint;
///
/// let young = Fingerprint::read(&b"one\n"[..])?;
/// assert_eq!(young, Fingerprint::read(&b"one\ntwo\n"[..])?);
/// assert_eq!(Fingerprint::read(&b"one"[..])?, None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(VisitorId);

/// The same in every process, for ever.
const KEY: VisitorKey = VisitorKey::new([0; 16]);

/// The most bytes at the beginning of a file that are looked at.
const MAX_BEGINNING: usize = 2 * MAX_LINE;

impl Fingerprint {
    /// Reads the beginning of a log, and returns its fingerprint; `None` if the first line has not ended.
    ///
    /// # Errors
    /// When the reader fails.
    pub fn read(mut log: impl Read) -> io::Result<Option<Self>> {
        let mut beginning = Vec::new();
        let mut searched = 0;
        loop {
            let wanted = (beginning.len() * 2).clamp(1024, MAX_BEGINNING) as u64;
            let left = wanted.saturating_sub(beginning.len() as u64);
            let is_all = (&mut log).take(left).read_to_end(&mut beginning)? as u64 != left;
            while let Some(end) = memchr::memchr(b'\n', &beginning[searched..]) {
                let line = searched;
                searched += end + 1;
                if beginning[line] != b'#' {
                    return Ok(Some(Self::of(&beginning[..searched])));
                }
            }
            // There is no end to such a line.
            if beginning.len() >= MAX_BEGINNING {
                return Ok(Some(Self::of(&beginning[..MAX_BEGINNING])));
            }
            if is_all {
                return Ok(None);
            }
        }
    }

    fn of(beginning: &[u8]) -> Self {
        Self(KEY.visitor(&[b"log", &without_addresses(beginning)]))
    }
}

/// Returns a text without the addresses in it, and their ports.
fn without_addresses(text: &[u8]) -> Vec<u8> {
    let is_of_address = |byte: &u8| byte.is_ascii_hexdigit() || b".:".contains(byte);
    let mut rest = Vec::with_capacity(text.len());
    for run in text.chunk_by(|one, other| is_of_address(one) == is_of_address(other)) {
        let is_address = str::from_utf8(run)
            .is_ok_and(|run| run.parse::<IpAddr>().is_ok() || run.parse::<SocketAddr>().is_ok());
        if !is_address {
            rest.extend_from_slice(run);
        }
    }
    rest
}

impl fmt::Display for Fingerprint {
    /// Writes 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8]) -> Option<Fingerprint> {
        Fingerprint::read(text).expect("it can be read")
    }

    #[test]
    fn a_log_that_grows_keeps_its_fingerprint_and_another_first_line_has_another() {
        let log = b"#Version: 1.0\n#Fields: date time\n2024-05-01 00:00:01\n2024-05-01 00:00:02\n";
        let ends = log.len() - "2024-05-01 00:00:02\n".len();
        for length in 0..=log.len() {
            assert_eq!(of(&log[..length]), of(log).filter(|_| length >= ends), "{length}");
        }
        assert_ne!(of(log), of(&String::from_utf8_lossy(log).replace(":01", ":03").into_bytes()));
        assert_eq!(of(b"a\n").expect("a line").to_string().len(), 32);
    }

    #[test]
    fn no_address_is_in_a_fingerprint() {
        let line = |client: &str| {
            of(format!("{client} - - [01/May/2026:00:00:01 +0000] \"GET / HTTP/1.1\"\n").as_bytes())
        };
        for client in ["198.51.100.255", "2001:db8::1", "::ffff:192.0.2.1", "192.0.2.1:8080"] {
            assert_eq!(line(client), line("192.0.2.1"), "{client}");
        }
        let json = |client: &str| of(format!("{{\"remote_ip\":\"{client}\",\"ts\":1.5}}\n").as_bytes());
        assert_eq!(json("2001:db8::1"), json("192.0.2.1"));
        assert_ne!(of(b"12:00:01 /\n"), of(b"12:00:02 /\n"));
    }

    #[test]
    fn a_beginning_without_an_end_has_a_fingerprint_once_it_is_long() {
        let long = vec![b'x'; 3 * MAX_BEGINNING];
        assert_eq!(of(&long[..MAX_BEGINNING - 1]), None);
        assert!(of(&long).is_some());
        assert_eq!(of(&long[..MAX_BEGINNING]), of(&long));
        let ended = [&long[..5000], b"\n"].concat();
        assert!(of(&ended).is_some() && of(&ended) != of(&long));
    }
}
