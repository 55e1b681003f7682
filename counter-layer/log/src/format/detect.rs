use std::fmt;

use http::HeaderName;

use super::{Format, Parser};
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

/// The known formats. If multiple formats match the same lines, the more specific format must come first.
fn known() -> [(&'static str, Format); 6] {
    [
        ("vhost_combined", Format::vhost_combined()),
        ("main", Format::main()),
        ("combined", Format::combined()),
        ("common", Format::common()),
        ("json", Format::nginx()),
        ("w3c", Format::w3c()),
    ]
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
        let lines = || (1..).zip(beginning.split(|byte| *byte == b'\n')).take(MAX_LINES);
        let has_request = |line: &[u8]| !line.trim_ascii().is_empty() && line[0] != b'#';
        let all = lines().filter(|(_, line)| has_request(line)).count();
        let first = lines().find(|(_, line)| has_request(line)).map_or(0, |(number, _)| number);
        let mut best = None;
        let mut tried = Vec::new();
        for (name, format) in known() {
            let mut parser = Parser::new(format.clone());
            let (mut read, mut reason) = (0, None);
            for (number, line) in lines() {
                match parser.parse(line) {
                    Ok(Some(line)) if name != "main" || is_forwarded(&line) => read += 1,
                    Ok(Some(_)) if number == first => reason = Some(Malformed::Fields),
                    Err(malformed) if number == first => reason = Some(malformed),
                    Ok(_) | Err(_) => {}
                }
            }
            tried.push((name, reason));
            if read > 0 && read * 2 >= all && best.as_ref().is_none_or(|(best_count, _)| read > *best_count) {
                best = Some((read, format));
            }
        }
        best.map(|(_, format)| format).ok_or(UnknownFormat { line: first, tried })
    }
}

/// Returns `true` if the final field looks like addresses, as in the format `main`.
fn is_forwarded(line: &Line<'_>) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || b".:, []".contains(byte);
    let is_list = |value: &[u8]| {
        value.eq_ignore_ascii_case(b"unknown")
            || value.iter().all(is_part) && value.iter().any(|byte| b".:".contains(byte)) && value.len() > 6
    };
    line.header(&HeaderName::from_static("x-forwarded-for")).is_none_or(is_list)
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return f.write_str("the log does not contain a request");
        }
        write!(f, "the format of line {} is unknown", self.line)?;
        for (number, (name, reason)) in self.tried.iter().enumerate() {
            f.write_str(if number == 0 { ": " } else { "; " })?;
            match reason {
                Some(reason) => write!(f, "as {name}, {reason}")?,
                None => write!(f, "as {name}, most other lines do not match")?,
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
            (format!("www.example.org:443 {combined}"), Format::vhost_combined()),
            (format!(r#"{combined} "192.0.2.7, 10.0.0.1""#), Format::main()),
            (format!(r#"{combined} "-""#), Format::main()),
            // The final field does not need to be an address.
            (format!(r#"{combined} "0.005""#), Format::combined()),
            (format!(r#"{combined} "gzip" 0.005"#), Format::combined()),
            (r#"{"ts":1,"request":{"method":"GET","uri":"/"},"status":200}"#.to_owned(), Format::caddy()),
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
        let text = "the format of line 3 is unknown: \
            as vhost_combined, the time is invalid; as main, the time is invalid; \
            as combined, the time is invalid; as common, the time is invalid; \
            as json, the fields do not match the format; as w3c, the fields do not match the format";
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
