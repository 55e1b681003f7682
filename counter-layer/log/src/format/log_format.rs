//! `log_format` strings of nginx.

use super::clock::TimeForm;
use super::escapes::Escapes;
use super::fields::Slot;
use super::names::header_variable;
use super::pattern::{FormatError, Pattern, Steps};

/// Compiles a string with variables, or the whole `log_format` directive.
pub(super) fn compile(text: &str) -> Result<Pattern, FormatError> {
    let Directive { escapes, format } = Directive::read(text);
    let (mut steps, mut rest, mut column) = (Steps::default(), &*format, 1);
    while let Some(next) = rest.chars().next() {
        let token = if let Some(variable) = variable(rest, column)? {
            steps.push(slot(variable.trim_matches(['$', '{', '}'])), variable, column)?;
            variable
        } else {
            steps.literal(next);
            &rest[..next.len_utf8()]
        };
        column += token.chars().count();
        rest = &rest[token.len()..];
    }
    steps.finish(["$time_local", "$request"], escapes)
}

/// Returns the variable at the start of the text, as `$name` or `${name}`, unless it starts with a literal.
fn variable(text: &str, column: usize) -> Result<Option<&str>, FormatError> {
    let Some(name) = text.strip_prefix('$') else { return Ok(None) };
    if name.starts_with('{') {
        let end = text.find('}').ok_or(FormatError::Unfinished { column })?;
        return Ok(Some(&text[..=end]));
    }
    let is_end = |char: char| !char.is_ascii_alphanumeric() && char != '_';
    let length = name.find(is_end).unwrap_or(name.len());
    // A dollar sign without a name is a literal.
    Ok((length > 0).then(|| &text[..=length]))
}

/// Returns the slot of a [variable](https://nginx.org/en/docs/varindex.html).
fn slot(name: &str) -> Slot {
    match name {
        "time_local" | "time_iso8601" | "msec" => Slot::Time(TimeForm::Any),
        "status" => Slot::Status,
        "remote_addr" => Slot::Peer,
        "request" => Slot::Request,
        "request_method" => Slot::Method,
        "request_uri" => Slot::Target,
        "uri" | "document_uri" => Slot::Path,
        "args" | "query_string" | "is_args" => Slot::Query,
        "server_protocol" => Slot::Protocol,
        "host" | "server_name" => Slot::Host,
        // This must not include `$bytes_sent`, which contains the size of the head.
        "body_bytes_sent" => Slot::Bytes,
        "request_time" => Slot::Duration(1),
        name => header_variable(name.as_bytes()),
    }
}

/// The parts of a directive.
struct Directive {
    escapes: Escapes,
    format: String,
}

impl Directive {
    /// Reads `log_format name [escape=…] 'string' …;`, only strings, or a format without quotation marks.
    fn read(text: &str) -> Self {
        let mut rest = text.trim();
        let mut escapes = Escapes::Backslash;
        let is_directive =
            rest.strip_prefix("log_format").filter(|rest| rest.starts_with(char::is_whitespace));
        if let Some(arguments) = is_directive {
            let arguments = arguments.trim_start();
            // The name.
            rest = arguments.trim_start_matches(|char: char| !char.is_whitespace()).trim_start();
        }
        if let Some(escape) = rest.strip_prefix("escape=") {
            let (name, after) = escape.split_once(char::is_whitespace).unwrap_or((escape, ""));
            escapes = match name {
                "json" => Escapes::Json,
                "none" => Escapes::None,
                _ => Escapes::Backslash,
            };
            rest = after.trim_start();
        }
        let is_quoted = is_directive.is_some() || rest.starts_with('\'');
        Self { escapes, format: if is_quoted { strings(rest) } else { rest.to_owned() } }
    }
}

/// Joins strings, up to a semicolon.
fn strings(text: &str) -> String {
    let (mut joined, mut quote) = (String::new(), None);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('\\', _) => match chars.next() {
                Some('t') => joined.push('\t'),
                Some('n') => joined.push('\n'),
                Some('r') => joined.push('\r'),
                Some(char @ ('"' | '\'' | '\\')) => joined.push(char),
                other => joined.extend(['\\'].into_iter().chain(other)),
            },
            ('"' | '\'', None) => quote = Some(char),
            (end, Some(start)) if end == start => quote = None,
            (';', None) => break,
            (blank, None) if blank.is_whitespace() => {}
            (char, _) => joined.push(char),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderName;
    use proptest::prelude::*;

    use super::*;
    use crate::format::fields::Fields;
    use crate::{Format, Header, Parser};

    const LINE: &str = r#"192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 7 "https://example.org/" "A \x22B\x22" "192.0.2.7""#;

    #[track_caller]
    fn rejected(format: &str, message: &str) {
        assert_eq!(compile(format).expect_err(format).to_string(), message);
    }

    #[test]
    fn a_directive_is_read_as_it_is_in_the_configuration() {
        for format in [
            r#"log_format  main  '$remote_addr - $remote_user [$time_local] "$request" '
                      '$status $body_bytes_sent "$http_referer" '
                      '"$http_user_agent" "$http_x_forwarded_for"';"#,
            r#"log_format main escape=default "$remote_addr - ${remote_user} [$time_local] \"$request\" $status $body_bytes_sent "
               "\"$http_referer\" \"$http_user_agent\" \"$http_x_forwarded_for\""; access_log logs/access.log main;"#,
            r#"'$remote_addr - $remote_user [$time_local] "$request" ' '$status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"'"#,
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for""#,
        ] {
            let mut parser = Parser::new(format.parse::<Format>().expect(format));
            let line = parser.parse(LINE.as_bytes()).expect("it fits").expect("a request");
            assert_eq!((line.at.as_unix(), line.target), (971_211_336, &b"/a?b"[..]));
            assert_eq!((line.peer, line.bytes), (Some([192, 0, 2, 1].into()), Some(7)));
            assert_eq!(
                (line.referer(), line.user_agent()),
                (Header::Sent(&b"https://example.org/"[..]), Header::Sent(&b"A \"B\""[..]))
            );
            let forwarded = line.header(&HeaderName::from_static("x-forwarded-for"));
            assert_eq!(forwarded, Header::Sent(&b"192.0.2.7"[..]));
        }
    }

    #[test]
    fn escape_sequences_are_those_of_the_directive() {
        let format = |escape: &str| {
            format!(
                r#"log_format x {escape} '{{"at":$msec,"host":"$host","method":"$request_method","uri":"$uri$is_args$args","status":$status,"took":$request_time,"agent":"$http_user_agent"}}';"#
            )
        };
        for (escape, written, meant) in [
            ("escape=json", r#"A \"B\" \u001f"#, "A \"B\" \x1f"),
            ("escape=default", r"A \x22B\x22 \x1F", "A \"B\" \x1f"),
            ("", r"A \x22B\x22 \x1F", "A \"B\" \x1f"),
            ("escape=none", "A \"B\" \\x1F", "A \"B\" \\x1F"),
        ] {
            let mut parser = Parser::new(Format::log_format(&format(escape)).expect(escape));
            let line = format!(
                r#"{{"at":971211336.125,"host":"www.example.org","method":"GET","uri":"/a?b=c","status":404,"took":0.005,"agent":"{written}"}}"#
            );
            let line = parser.parse(line.as_bytes()).expect("it fits").expect("a request");
            assert_eq!(
                (line.at.as_unix(), line.method, line.target),
                (971_211_336, Some(&b"GET"[..]), &b"/a?b=c"[..])
            );
            assert_eq!(
                (line.host, line.duration),
                (Some(&b"www.example.org"[..]), Some(Duration::from_millis(5)))
            );
            assert_eq!(line.user_agent(), Header::Sent(meant.as_bytes()), "{escape}");
        }
    }

    #[test]
    fn unknown_variables_are_skipped() {
        let format =
            r#"$time_iso8601|$upstream_response_time|$request|$status|$cookie_id|$sent_http_etag|cost: $5"#;
        let mut parser = Parser::new(Format::log_format(format).expect("a format"));
        let line = "2000-10-10T13:55:36-07:00|0.001, 0.002 : -|GET /a HTTP/2.0|200|secret|\"x\"|cost: 7";
        let line = parser.parse(line.as_bytes()).expect("it fits").expect("a request");
        assert_eq!((line.at.as_unix(), line.target, line.peer), (971_211_336, &b"/a"[..], None));
    }

    #[test]
    fn invalid_formats_are_reported_with_variable_and_column() {
        rejected("$time_local ${status", "the directive at column 13 is incomplete");
        rejected("é $host$request_uri", "missing separator before $request_uri at column 8");
        rejected("log_format x '$status $request';", "the format does not contain $time_local");
        rejected("$msec $status $request_method $server_protocol", "the format does not contain $request");
        rejected("log_format", "the format does not contain $time_local");
    }

    proptest! {
        #[test]
        fn arbitrary_formats_and_lines_do_not_panic(
            format in r#"(log_format( x)?( escape=(json|none|x))?)?(\$\{?(status|request|msec|\PC){0,8}\}?|[" \\'\[\]:;|$]|\PC){0,20}"#,
            line in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let compiled = compile(&format);
            let with = compile(&format!("{format} $msec $request $status"));
            for pattern in [compiled, with].into_iter().flatten() {
                let mut fields = Fields::default();
                if pattern.read(&line, &mut fields).is_ok() {
                    _ = fields.line(&line);
                }
            }
        }
    }
}
