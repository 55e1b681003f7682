//! Prefixes that other programs add to a line, e.g. syslog or a container runtime, and JSON objects around a line.

use super::clock::MONTHS;
use super::{BYTE_ORDER_MARK, json};

/// A line without a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stripped<'a> {
    pub(super) line: &'a [u8],
    /// The time in the prefix, or an empty text. It is only needed if the line does not contain a time.
    pub(super) time: &'a [u8],
}

/// Removes a prefix. A line with escape sequences is written to `unescaped`.
#[inline]
pub(super) fn strip<'a>(line: &'a [u8], unescaped: &'a mut Vec<u8>) -> Stripped<'a> {
    let stripped = match line {
        [b'{', b'"', b'l', b'o', b'g', b'"', b':', ..] => unwrap(line, unescaped),
        [b'<', ..] => syslog(line),
        // `Oct 10 13:55:36 host nginx: `.
        [b'A'..=b'S', _, _, b' ', _, _, b' ', _, _, b':', ..] => bsd_syslog(line),
        // `2000-10-10T13:55:36.123456789Z stdout F `.
        [b'0'..=b'9', _, _, _, b'-', _, _, b'-', _, _, b'T', ..] => iso_prefix(line),
        _ => None,
    };
    stripped.unwrap_or(Stripped { line, time: &[] })
}

/// Docker writes `{"log":"…\n","stream":"stdout","time":"…"}` with the driver `json-file`.
#[cold]
fn unwrap<'a>(line: &'a [u8], unescaped: &'a mut Vec<u8>) -> Option<Stripped<'a>> {
    let (log, escapes) = json::member(line, b"log")?;
    json::member(line, b"stream")?;
    let time = json::member(line, b"time").map_or(&[][..], |(time, _)| &line[time]);
    unescaped.clear();
    escapes.write(&line[log], unescaped);
    Some(Stripped { line: unescaped.trim_ascii_end(), time })
}

/// A prefix with a priority: `<190>Oct 10 13:55:36 host nginx: ` (RFC 3164) or
/// `<190>1 2000-10-10T13:55:36Z host nginx 7 - - ` (RFC 5424).
fn syslog(line: &[u8]) -> Option<Stripped<'_>> {
    let end = line.iter().take(5).position(|byte| *byte == b'>')?;
    let (priority, rest) = (&line[1..end], &line[end + 1..]);
    if priority.is_empty() || !priority.iter().all(u8::is_ascii_digit) {
        return None;
    }
    match rest.strip_prefix(b"1 ") {
        None => bsd_syslog(rest).or_else(|| iso_prefix(rest)),
        Some(rest) => {
            let (time, rest) = word(rest)?;
            // Host, program, process and kind of message.
            let structured = (0..4).try_fold(rest, |rest, _| word(rest).map(|(_, rest)| rest))?;
            let message = match structured.strip_prefix(b"-") {
                Some(message) => message,
                None => structured_data(structured)?,
            };
            let message = message.strip_prefix(b" ")?;
            Some(Stripped { line: message.strip_prefix(BYTE_ORDER_MARK).unwrap_or(message), time })
        }
    }
}

/// Skips the elements of RFC 5424: `[origin ip="192.0.2.1"][meta]`.
fn structured_data(mut text: &[u8]) -> Option<&[u8]> {
    while let Some(element) = text.strip_prefix(b"[") {
        let (mut at, mut is_quoted) = (0, false);
        loop {
            match element.get(at)? {
                b'\\' => at += 1,
                b'"' => is_quoted = !is_quoted,
                b']' if !is_quoted => break,
                _ => {}
            }
            at += 1;
        }
        text = &element[at + 1..];
    }
    Some(text)
}

fn bsd_syslog(line: &[u8]) -> Option<Stripped<'_>> {
    let ([month @ .., b' ', _, _, b' '], rest) = line.split_first_chunk::<7>()? else { return None };
    let ([_, _, b':', _, _, b':', _, _, b' '], rest) = rest.split_first_chunk::<9>()? else { return None };
    let is_month = MONTHS.iter().any(|name| name.eq_ignore_ascii_case(month));
    // The time does not have a year.
    Some(Stripped { line: host_and_program(rest).filter(|_| is_month)?, time: &[] })
}

/// A prefix with the time of RFC 3339: `2000-10-10T13:55:36Z host nginx: `, as rsyslog writes it, or
/// `2000-10-10T13:55:36Z stdout F ` for a container in Kubernetes.
fn iso_prefix(line: &[u8]) -> Option<Stripped<'_>> {
    let (time, rest) = word(line)?;
    let of_container = || {
        let (stream, rest) = word(rest)?;
        let (flag, rest) = word(rest)?;
        (matches!(stream, b"stdout" | b"stderr") && matches!(flag, b"F" | b"P")).then_some(rest)
    };
    Some(Stripped { line: of_container().or_else(|| host_and_program(rest))?, time })
}

/// Skips `host nginx[7]: `. The host is optional.
fn host_and_program(text: &[u8]) -> Option<&[u8]> {
    let is_program = |word: &[u8]| word.len() > 1 && word.ends_with(b":") && !word.contains(&b'"');
    let (first, rest) = word(text)?;
    if is_program(first) {
        return Some(rest);
    }
    let (second, rest) = word(rest)?;
    is_program(second).then_some(rest)
}

/// Returns the text up to the next space, and the rest.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', text)?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_are_removed_and_other_lines_are_unchanged() {
        let request = r#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 7"#;
        for (prefix, time) in [
            ("<190>Oct 10 13:55:36 web-1 nginx: ", ""),
            ("<190>Oct  1 13:55:36 nginx: ", ""),
            ("Oct 10 13:55:36 web-1 haproxy[14389]: ", ""),
            ("<165>1 2000-10-10T20:55:36.003Z web-1 nginx 7 access - ", "2000-10-10T20:55:36.003Z"),
            ("<13>1 - web-1 nginx - - [a@1 b=\"]\\\"\"][c] \u{feff}", "-"),
            ("2000-10-10T20:55:36+00:00 web-1 nginx[7]: ", "2000-10-10T20:55:36+00:00"),
            ("2000-10-10T20:55:36.123456789Z stdout F ", "2000-10-10T20:55:36.123456789Z"),
        ] {
            let line = format!("{prefix}{request}");
            let mut unescaped = Vec::new();
            let stripped = strip(line.as_bytes(), &mut unescaped);
            let expected = Stripped { line: request.as_bytes(), time: time.as_bytes() };
            assert_eq!(stripped, expected, "{line}");
        }
        for line in [
            request,
            "",
            "Oct 10 13:55:36 ",
            "Okt 10 13:55:36 web-1 nginx: x",
            "Oct 10 13:55:36 web-1 nginx x",
            "<x>Oct 10 13:55:36 web-1 nginx: x",
            "<190>1 2000-10-10T20:55:36Z web-1",
            "2000-10-10T20:55:36.945958Z my-elb 192.0.2.1:2817 10.0.0.1:80 0.000073",
            r#"{"log":"a","time":"b"}"#,
            r#"{"log":"a\"#,
        ] {
            let mut unescaped = Vec::new();
            let stripped = strip(line.as_bytes(), &mut unescaped);
            assert_eq!(stripped, Stripped { line: line.as_bytes(), time: &[] }, "{line}");
        }
    }

    #[test]
    fn a_line_is_taken_from_the_object_of_docker() {
        let line =
            br#"{"log":"192.0.2.1 - - \"GET /\u00e9\"\n","stream":"stdout","time":"2000-10-10T20:55:36.5Z"}"#;
        let mut unescaped = Vec::new();
        let expected =
            Stripped { line: "192.0.2.1 - - \"GET /é\"".as_bytes(), time: b"2000-10-10T20:55:36.5Z" };
        assert_eq!(strip(line, &mut unescaped), expected);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            start in r#"(<[0-9]{0,3}>1? ?|Oct 1|2000-10-10T|\{"log":)?"#,
            text in r#"([0-9: \["\\=TZ:a-f,}-]|\PC){0,60}"#,
        ) {
            strip(format!("{start}{text}").as_bytes(), &mut Vec::new());
        }
    }
}
