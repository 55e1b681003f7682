//! The W3C extended log file format, used by IIS and `CloudFront`. The `#Fields:` directive defines the
//! fields of the lines that follow.

use http::header::USER_AGENT;

use super::clock::TimeForm;
use super::escapes::Escapes;
use super::fields::{Field, Fields, Slot};
use super::names::{self, Name, header_slot};
use crate::malformed::Malformed;

/// The directives that apply to the next line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    fields: Vec<Field>,
    /// The date from `#Date:`, for lines that only contain the time of day.
    date: Option<[u8; 10]>,
}

/// Maximum number of fields per line.
const MAX_FIELDS: usize = 256;

impl Directives {
    /// Applies a directive, i.e. a line that starts with `#`.
    pub(super) fn read_directive(&mut self, line: &[u8]) {
        if let Some(names) = value(line, b"#Fields:") {
            let names = names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty());
            self.fields = names.take(MAX_FIELDS).map(field).collect();
        } else if let Some(date) = value(line, b"#Date:") {
            self.date = date.get(..10).and_then(|date| date.try_into().ok());
        }
    }

    /// Parses a line into `fields`.
    pub(super) fn read(&self, line: &[u8], fields: &mut Fields) -> Result<(), Malformed> {
        // IIS separates fields by spaces and replaces spaces in a text by `+`. CloudFront uses tabs and
        // percent-encoding instead.
        let (between, escapes) = match memchr::memchr(b'\t', line) {
            Some(_) => (b'\t', Escapes::Percent),
            None => (b' ', Escapes::Plus),
        };
        let mut at = 0;
        for (number, field) in self.fields.iter().enumerate() {
            let rest = &line[at..];
            let end = if rest.first() == Some(&b'"') {
                // Quotation marks inside of a text are doubled, so we skip both.
                1 + memchr::memchr_iter(b'"', &rest[1..])
                    .find(|end| rest.get(end + 2).is_none_or(|next| *next == between))
                    .ok_or(Malformed::Fields)?
            } else {
                memchr::memchr(between, rest).unwrap_or(rest.len())
            };
            let is_quoted = rest.first() == Some(&b'"');
            let start = at + usize::from(is_quoted);
            // IIS decodes the path, and leaves the query as it is. CloudFront encodes every field.
            let escapes = match (escapes, &field.slot) {
                _ if is_quoted => Escapes::None,
                (Escapes::Percent, Slot::Header(name)) if name == USER_AGENT => Escapes::Percents,
                (Escapes::Percent, _) | (_, Slot::Header(_)) => escapes,
                _ => Escapes::None,
            };
            fields.put(line, start..at + end, field, escapes);
            at += end + usize::from(is_quoted);
            let is_last = number + 1 == self.fields.len();
            match line.get(at) {
                Some(byte) if *byte == between => at += 1,
                None if is_last => {}
                _ => return Err(Malformed::Fields),
            }
        }
        if self.fields.is_empty() || at < line.len() {
            return Err(Malformed::Fields);
        }
        if let Some(date) = self.date {
            fields.put_date(&date);
        }
        Ok(())
    }
}

/// Returns the value of a directive. Names are case-insensitive.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value.trim_ascii())
}

/// Returns the field with a name. In this format, the time is in UTC, unless the name says otherwise.
fn field(name: &[u8]) -> Field {
    let normalized = Name::EMPTY.join(name);
    match normalized.as_bytes() {
        b"date" => Slot::Date.into(),
        b"time" => Slot::TimeOfDay.into(),
        b"datelocal" => Slot::LocalDate.rank(1),
        b"timelocal" => Slot::LocalTimeOfDay.rank(1),
        b"timestamp" => Slot::Time(TimeForm::Utc).into(),
        _ => match name.split_at_checked(3) {
            Some((scope, header)) if scope.eq_ignore_ascii_case(b"cs(") => match header.strip_suffix(b")") {
                Some(host) if host.eq_ignore_ascii_case(b"host") => Slot::Host.into(),
                Some(header) => header_slot(header).into(),
                None => Slot::Skipped.into(),
            },
            _ => names::field(name, &normalized),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use counter_layer::Outcome;

    use crate::{Format, Header, Parser};

    const IIS: &str = "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Date: 2024-05-01 00:00:00\r\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken\r\n2024-05-01 00:00:01 10.0.0.1 GET /articles/7 a=b 443 - 192.0.2.1 Mozilla/5.0+(X11) - 200 0 0 15\r\n";

    /// Checks the final line, after parsing the lines before it.
    #[track_caller]
    fn check(text: &str, check_line: impl FnOnce(crate::Line<'_>)) {
        let mut parser = Parser::new(Format::w3c());
        let lines: Vec<_> = text.lines().collect();
        let (last, before) = lines.split_last().expect("a line");
        for line in before {
            _ = parser.parse(line.as_bytes());
        }
        check_line(parser.parse(last.as_bytes()).expect("it fits").expect("a request"));
    }

    #[test]
    fn iis_lines_are_parsed() {
        check(IIS, |line| {
            assert_eq!((line.at.as_unix(), line.target), (1_714_521_601, &b"/articles/7?a=b"[..]));
            assert_eq!(
                (line.peer, line.user_agent()),
                (Some([192, 0, 2, 1].into()), Header::Sent(&b"Mozilla/5.0 (X11)"[..]))
            );
            assert_eq!(line.referer(), Header::NotSent);
            assert_eq!(line.outcome, Outcome::Responded(http::StatusCode::OK));
            assert_eq!(line.duration, Some(std::time::Duration::from_millis(15)));
        });
    }

    #[test]
    fn cloudfront_lines_are_parsed() {
        let text = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query time-taken\n2024-05-01\t00:00:01\tFRA\t12\t192.0.2.1\tGET\td1.example.net\t/a%20b\t404\t-\tMozilla/5.0%20(X11)\t-\t0.015";
        check(text, |line| {
            assert_eq!((line.target, line.host), (&b"/a%20b"[..], Some(&b"d1.example.net"[..])));
            // `sc-bytes` includes the head.
            assert_eq!((line.bytes, line.user_agent()), (None, Header::Sent(&b"Mozilla/5.0 (X11)"[..])));
            assert_eq!(line.duration, Some(std::time::Duration::from_millis(15)));
        });
    }

    #[test]
    fn directives_can_change_the_fields_and_set_the_date() {
        let text = format!(
            "{IIS}#Date: 2024-05-02 00:00:00\n#Fields: time cs-method cs-uri sc-status cs(User-Agent)\n00:00:01 GET /b 200 \"A B \"\"c\"\"\""
        );
        check(&text, |line| {
            assert_eq!((line.at.as_unix(), line.target), (1_714_608_001, &b"/b"[..]));
            assert_eq!(line.user_agent(), Header::Sent(&br#"A B ""c"""#[..]));
        });
    }

    #[test]
    fn lines_with_missing_fields_are_malformed() {
        let fields = "#Fields: date time cs-method cs-uri sc-status";
        for (line, reason) in [
            ("2024-05-01 00:00:01 GET /", Malformed::Fields),
            ("2024-05-01 00:00:01 GET / 200 more", Malformed::Fields),
            ("2024-05-01 00:00:01 GET / 2000", Malformed::Status),
            ("2024-05-01 00:00:61 GET / 200", Malformed::Time),
            ("2024-05-01 00:00:01 - / 200", Malformed::Request),
            ("2024-05-01 00:00:01.000000000000000000000000000 GET / 200", Malformed::Time),
            ("\"2024-05-01 00:00:01 GET / 200", Malformed::Fields),
        ] {
            let mut parser = Parser::new(Format::w3c());
            assert_eq!(parser.parse(line.as_bytes()).map(drop), Err(Malformed::Fields), "{line}");
            assert!(parser.parse(fields.as_bytes()).expect("a directive").is_none());
            assert_eq!(parser.parse(line.as_bytes()).map(drop), Err(reason), "{line}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            fields in r#"((date|time|c-ip|cs-uri-stem|cs-uri-query|sc-status|cs-method|cs\(.{0,3}\)|time-taken) ?){0,12}"#,
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            signs in "[0-9/:\" \t+%.-]{0,60}",
        ) {
            let mut parser = Parser::new(Format::w3c());
            _ = parser.parse(format!("#Fields: {fields}").as_bytes());
            _ = parser.parse(&bytes);
            _ = parser.parse(signs.as_bytes());
            _ = parser.parse(&[b"#Date:", &bytes[..]].concat());
            _ = parser.parse(signs.as_bytes());
        }
    }
}
