use std::fmt;

use super::fields::X_FORWARDED_FOR;
use super::{Format, Kind, PATTERNS, Parser, is_directive};
use crate::line::Line;
use crate::malformed::Malformed;

/// The error if the log format can't be detected.
///
/// This contains a line number, but never any text of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownFormat {
    /// The number of the first line with a request, counted from 1, or 0 if the log does not contain
    /// requests.
    pub line: usize,
    /// The formats that were tried, with the reason why this line does not match. This is `None` if the line
    /// matches, but most other lines don't.
    pub tried: Vec<(&'static str, Option<Malformed>)>,
}

/// Maximum number of lines to read.
const MAX_LINES: usize = 64;

/// Returns the known formats. If a line matches more than one, the more specific format comes first.
fn known() -> impl Iterator<Item = (&'static str, Format)> {
    let named = |name| (name, Format::known(name));
    PATTERNS.iter().map(move |(name, _)| named(name)).chain(["json", "w3c", "ltsv", "logfmt"].map(named))
}

impl Format {
    /// Detects the log format from the first 64 lines. This returns the format that matches most lines, if it
    /// matches at least half of the lines.
    ///
    /// ```
    /// use counter_log::Format;
    ///
    /// let line = br#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 2326 "-" "Mozilla/5.0""#;
    /// assert_eq!(Format::detect(line)?, Format::combined());
    /// # Ok::<(), counter_log::UnknownFormat>(())
    /// ```
    ///
    /// # Errors
    /// Fails if none of the known formats matches half of the lines. In this case, you need to use a
    /// [pattern](Format::pattern) or the [format of nginx](Format::log_format).
    pub fn detect(beginning: &[u8]) -> Result<Self, UnknownFormat> {
        let has_request = |line: &[u8]| !line.trim_ascii().is_empty() && !is_directive(line);
        // The last line may be incomplete, and then match a different format.
        let complete = memchr::memrchr(b'\n', beginning).map(|end| &beginning[..end]);
        let complete = complete.filter(|lines| lines.split(|byte| *byte == b'\n').any(has_request));
        let lines = || (1..).zip(complete.unwrap_or(beginning).split(|byte| *byte == b'\n')).take(MAX_LINES);
        let all = lines().filter(|(_, line)| has_request(line)).count();
        let first = lines().find(|(_, line)| has_request(line)).map_or(0, |(number, _)| number);
        let mut best = None;
        let mut tried = Vec::new();
        for (name, format) in known() {
            let is_pattern = matches!(format.0, Kind::Pattern(_));
            let mut parser = Parser::new(format.clone());
            // The lines with a request, and all lines that match the format.
            let (mut read, mut matching, mut reason) = (0, 0, None);
            for (number, line) in lines() {
                let parsed = match parser.parse(line) {
                    Ok(Some(line)) if is_meant(name, &line) => Ok(true),
                    Ok(Some(_)) => Err(Malformed::Fields),
                    Ok(None) => continue,
                    // Clients that use TLS on a plain port can fill many lines.
                    Err(Malformed::Request) if is_pattern => Ok(false),
                    Err(malformed) => Err(malformed),
                };
                match parsed {
                    Ok(has_request) => {
                        read += usize::from(has_request);
                        matching += 1;
                    }
                    Err(malformed) if number == first => reason = Some(malformed),
                    Err(_) => {}
                }
            }
            tried.push((name, reason));
            let count = (read, matching);
            if matching > 0 && matching * 2 >= all && best.as_ref().is_none_or(|(best, _)| count > *best) {
                best = Some((count, format));
            }
        }
        best.map(|(_, format)| format).ok_or(UnknownFormat { line: first, tried })
    }
}

/// Returns `true` if the fields of a line look like those of the format. Some formats match too much.
fn is_meant(name: &str, line: &Line<'_>) -> bool {
    match name {
        "main" => is_forwarded(line),
        // A list of addresses can stand in place of the peer.
        "vhost" | "vhost_common" => line.peer.is_some() && !line.host.unwrap_or_default().ends_with(b","),
        "unquoted_agent" | "unquoted" => is_product(line),
        _ => true,
    }
}

/// Returns `true` if the final field looks like addresses, as in the format `main`.
fn is_forwarded(line: &Line<'_>) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || b".:, []".contains(byte);
    let is_list = |value: &[u8]| {
        value.eq_ignore_ascii_case(b"unknown")
            || value.iter().all(is_part) && value.iter().any(|byte| b".:".contains(byte)) && value.len() > 6
    };
    line.header(&X_FORWARDED_FOR).sent().is_none_or(is_list)
}

/// Returns `true` if the user agent starts like `Mozilla/5.0`.
fn is_product(line: &Line<'_>) -> bool {
    let user_agent = line.user_agent().sent().unwrap_or_default();
    let (name, version) = user_agent.split_at(memchr::memchr(b'/', user_agent).unwrap_or_default());
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    !name.is_empty() && name.iter().all(is_name) && version.get(1).is_some_and(u8::is_ascii_digit)
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return f.write_str("the log does not contain a request");
        }
        write!(f, "the format of line {} is unknown", self.line)?;
        // Most formats fail for the same reason, so this comes last.
        let mut reasons = Vec::<Option<Malformed>>::new();
        for (_, reason) in &self.tried {
            if !reasons.contains(reason) {
                reasons.push(*reason);
            }
        }
        reasons.sort_by_key(|reason| *reason == Some(Malformed::Fields));
        for (number, reason) in reasons.iter().enumerate() {
            f.write_str(if number == 0 { ": as " } else { "; as " })?;
            let of_reason = self.tried.iter().filter(|(_, other)| other == reason);
            let names: Vec<_> = of_reason.map(|(name, _)| *name).collect();
            match reason {
                Some(reason) => write!(f, "{}, {reason}", names.join(", "))?,
                None => write!(f, "{}, most other lines do not match", names.join(", "))?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for UnknownFormat {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COMMON: &str = r#"2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] "GET /secret HTTP/1.0" 200 2326"#;

    fn detect(text: &str) -> Result<Format, UnknownFormat> {
        Format::detect(text.as_bytes())
    }

    #[test]
    fn known_formats_are_detected() {
        let combined = format!(r#"{COMMON} "-" "Mozilla/5.0""#);
        for (text, expected) in [
            (COMMON.to_owned(), Format::common()),
            (combined.clone(), Format::combined()),
            (format!("www.example.org:443 {combined}"), Format::known("vhost_combined")),
            (format!(r#"{combined} "192.0.2.7, 10.0.0.1""#), Format::known("main")),
            (format!(r#"{combined} "-""#), Format::known("main")),
            // The final field does not need to be an address.
            (format!(r#"{combined} "0.005""#), Format::combined()),
            (format!(r#"{combined} "gzip" 0.005"#), Format::combined()),
            (r#"{"ts":1,"request":{"method":"GET","uri":"/"},"status":200}"#.to_owned(), Format::json()),
            (
                "#Fields: date time cs-method cs-uri sc-status\n2024-05-01 00:00:01 GET / 200\n".to_owned(),
                Format::w3c(),
            ),
            // Some lines are not requests, not even the first.
            (
                format!(
                    "\r\n{}\r\n{combined}\r\n{combined}\r\n",
                    combined.replace("GET /secret", r"\x16\x03")
                ),
                Format::combined(),
            ),
        ] {
            assert_eq!(detect(&text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unknown_formats_are_reported_without_log_content() {
        let error = detect(&format!("\n#\n{}\n", COMMON.replace("Oct", "Okt"))).expect_err("a broken time");
        let text = "the format of line 3 is unknown: as common, the time is invalid; \
            as vhost_combined, vhost, main, combined, unquoted_agent, unquoted, vhost_common, alb, elb, s3, haproxy, \
            json, w3c, ltsv, logfmt, the fields do not match the format";
        assert_eq!(error.to_string(), text);
        let mixed = detect(&format!("{COMMON}\nsecret\nsecret\n")).expect_err("mostly something else");
        assert!(mixed.to_string().contains("as common, most other lines do not match"), "{mixed}");
        assert!(!format!("{mixed} {mixed:?}").contains("secret"), "{mixed:?}");
        assert_eq!(detect("\n").expect_err("no line").to_string(), "the log does not contain a request");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            _ = Format::detect(&bytes);
        }
    }
}
