use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};

use counter_core::VisitorId;
use counter_core::visitor::VisitorKey;

use crate::format::MAX_LINE;

/// The identity of a log file: a hash of the first line, without addresses.
///
/// The fingerprint does not change if the file grows, or is renamed, copied or compressed. If a file is
/// truncated and rewritten, the fingerprint will be different. Thus, a rotated part of a log is always the
/// same source with the same positions, in any file. A file without a complete line does not have a
/// fingerprint.
///
/// In the W3C format, all logs start with the same directives, so we hash initial lines that start with `#`
/// and the line that follows. Logs that start with the same line have the same fingerprint. To avoid this,
/// you should include the name of the server or site in the source name; a [`LogIndex`](crate::LogIndex) can
/// detect such logs.
///
/// The hash key is public, so that the fingerprint only depends on the file. However, with a public key, an
/// attacker could recover an address by trying all addresses. Therefore, the hash does not include anything
/// that parses as an address.
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

/// The hash key, which must never change.
const KEY: VisitorKey = VisitorKey::new([0; 16]);

/// Maximum number of bytes to read.
const MAX_BEGINNING: usize = 2 * MAX_LINE;

impl Fingerprint {
    /// Reads the start of a log and returns the fingerprint, or `None` if the line is incomplete.
    ///
    /// # Errors
    /// Fails if the reader fails.
    pub fn read(mut log: impl Read) -> io::Result<Option<Self>> {
        let mut beginning = Vec::new();
        let mut searched = 0;
        loop {
            let target_length = (beginning.len() * 2).clamp(1024, MAX_BEGINNING) as u64;
            let left = target_length.saturating_sub(beginning.len() as u64);
            let is_all = (&mut log).take(left).read_to_end(&mut beginning)? as u64 != left;
            while let Some(end) = memchr::memchr(b'\n', &beginning[searched..]) {
                let line = searched;
                searched += end + 1;
                if beginning[line] != b'#' {
                    return Ok(Some(Self::of(&beginning[..searched])));
                }
            }
            // The line is too long.
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

/// Removes addresses and ports from a text.
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
    fn the_fingerprint_only_depends_on_the_first_line() {
        let log = b"#Version: 1.0\n#Fields: date time\n2024-05-01 00:00:01\n2024-05-01 00:00:02\n";
        let ends = log.len() - "2024-05-01 00:00:02\n".len();
        for length in 0..=log.len() {
            assert_eq!(of(&log[..length]), of(log).filter(|_| length >= ends), "{length}");
        }
        assert_ne!(of(log), of(&String::from_utf8_lossy(log).replace(":01", ":03").into_bytes()));
        assert_eq!(of(b"a\n").expect("a line").to_string().len(), 32);
    }

    #[test]
    fn fingerprints_do_not_include_addresses() {
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
    fn long_incomplete_lines_have_a_fingerprint() {
        let long = vec![b'x'; 3 * MAX_BEGINNING];
        assert_eq!(of(&long[..MAX_BEGINNING - 1]), None);
        assert!(of(&long).is_some());
        assert_eq!(of(&long[..MAX_BEGINNING]), of(&long));
        let ended = [&long[..5000], b"\n"].concat();
        assert!(of(&ended).is_some() && of(&ended) != of(&long));
    }
}
