use std::fmt;

use http::HeaderName;

use super::{Format, Parser};
use crate::line::Line;
use crate::malformed::Malformed;

/// The error of a log whose format cannot be found out.
///
/// It names the line and what could not be read in it, and repeats nothing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownFormat {
    /// The number of the first line with a request, counted from 1; 0 where there is no line.
    pub line: usize,
    /// The formats that were tried, and why that line is none of theirs; `None` where other lines are not.
    pub tried: Vec<(&'static str, Option<Malformed>)>,
}

/// The most lines that are looked at.
const LINES: usize = 64;

/// The known formats: before another that reads the same lines stands the one that makes more of them.
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
    /// Finds out the format of a log from its first lines, of which 64 are looked at: the known one that reads most of
    /// them, and at least half.
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
    /// When no known format reads half of the lines: its [pattern](Format::pattern) has to be told then.
    pub fn detect(beginning: &[u8]) -> Result<Self, UnknownFormat> {
        let lines = || (1..).zip(beginning.split(|byte| *byte == b'\n')).take(LINES);
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
            if read > 0 && read * 2 >= all && best.as_ref().is_none_or(|(most, _)| read > *most) {
                best = Some((read, format));
            }
        }
        best.map(|(_, format)| format).ok_or(UnknownFormat { line: first, tried })
    }
}

/// Returns `true` if what stands where `main` has addresses may be some.
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
            return f.write_str("there is no line to find out the format by");
        }
        write!(f, "the format of line {} is not known", self.line)?;
        for (number, (name, reason)) in self.tried.iter().enumerate() {
            f.write_str(if number == 0 { ": " } else { "; " })?;
            match reason {
                Some(reason) => write!(f, "as {name}, {reason}")?,
                None => write!(f, "as {name}, most other lines cannot be read")?,
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
    fn every_known_format_is_found_out() {
        let combined = format!(r#"{COMMON} "-" "Mozilla/5.0""#);
        for (text, expected) in [
            (COMMON.to_owned(), Format::common()),
            (combined.clone(), Format::combined()),
            (format!("www.example.org:443 {combined}"), Format::vhost_combined()),
            (format!(r#"{combined} "192.0.2.7, 10.0.0.1""#), Format::main()),
            (format!(r#"{combined} "-""#), Format::main()),
            // Not every field behind is an address.
            (format!(r#"{combined} "0.005""#), Format::combined()),
            (format!(r#"{combined} "gzip" 0.005"#), Format::combined()),
            (r#"{"ts":1,"request":{"method":"GET","uri":"/"},"status":200}"#.to_owned(), Format::caddy()),
            (
                "#Fields: date time cs-method cs-uri sc-status\n2024-05-01 00:00:01 GET / 200\n".to_owned(),
                Format::w3c(),
            ),
            // Some lines say no request, and the first may be one of them.
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
    fn an_unknown_format_is_told_with_the_line_and_what_was_tried_but_not_what_it_says() {
        let error = detect(&format!("\n#\n{}\n", COMMON.replace("Oct", "Okt"))).expect_err("a broken time");
        let text = "the format of line 3 is not known: \
            as vhost_combined, the time cannot be read; as main, the time cannot be read; \
            as combined, the time cannot be read; as common, the time cannot be read; \
            as json, the fields are not those of the format; as w3c, the fields are not those of the format";
        assert_eq!(error.to_string(), text);
        let mixed = detect(&format!("{COMMON}\nsecret\nsecret\n")).expect_err("mostly something else");
        assert!(mixed.to_string().contains("as common, most other lines cannot be read"), "{mixed}");
        assert!(!format!("{mixed} {mixed:?}").contains("secret"), "{mixed:?}");
        assert_eq!(
            detect("\n").expect_err("no line").to_string(),
            "there is no line to find out the format by"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            _ = Format::detect(&bytes);
        }
    }
}
