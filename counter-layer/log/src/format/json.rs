//! JSON logs, with fields that have known [names](super::names), in the object of the line or in nested objects.
//!
//! The parser reads a line only once, and skips unknown fields. It does not validate the whole line.

use std::ops::Range;

use http::HeaderName;

use super::escapes::Escapes;
use super::fields::{Field, Fields, Slot};
use super::names::{self, Name};
use crate::line::Header;
use crate::malformed::Malformed;

/// The object that contains a member.
#[derive(Clone, Copy, Debug)]
enum Object {
    /// The line or a nested object. The name is the start of the names of all members.
    Fields(Name),
    /// The `request` object of Caddy, or `req` of Bunyan and Pino.
    Request,
    /// The `headers` object inside of a request.
    Headers,
}

/// Caddy replaces cookies and other secrets by this text.
const REDACTED: &[u8] = b"REDACTED";

/// Parses a line into `fields`.
pub(super) fn read(line: &[u8], fields: &mut Fields) -> Result<(), Malformed> {
    let mut reader = Reader { line, at: 0 };
    reader.blank();
    reader.object(Object::Fields(Name::EMPTY), fields)?;
    reader.blank();
    if reader.at == line.len() { Ok(()) } else { Err(Malformed::Fields) }
}

/// Returns the text of a member of the outer object, unless it is a nested value.
pub(super) fn member(line: &[u8], name: &[u8]) -> Option<(Range<usize>, Escapes)> {
    let mut reader = Reader { line, at: 0 };
    reader.blank();
    reader.expect(b'{').ok()?;
    loop {
        reader.blank();
        let (found, _) = reader.string().ok()?;
        reader.blank();
        reader.expect(b':').ok()?;
        reader.blank();
        let is_string = reader.line.get(reader.at) == Some(&b'"');
        if is_string {
            let (text, escapes) = reader.string().ok()?;
            if &line[found] == name {
                return Some((text, escapes));
            }
        } else {
            reader.skip().ok()?;
        }
        reader.blank();
        reader.expect(b',').ok()?;
    }
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn object(&mut self, object: Object, fields: &mut Fields) -> Result<(), Malformed> {
        self.expect(b'{')?;
        self.blank();
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            self.blank();
            let (name, _) = self.string()?;
            self.blank();
            self.expect(b':')?;
            self.blank();
            self.member(object, &self.line[name], fields)?;
            self.blank();
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn member(&mut self, object: Object, name: &[u8], fields: &mut Fields) -> Result<(), Malformed> {
        let first = self.line.get(self.at);
        let field = match object {
            Object::Headers => HeaderName::from_bytes(name).map_or(Slot::Skipped, Slot::Header).into(),
            Object::Request if first == Some(&b'{') => {
                if name != b"headers" {
                    return self.skip();
                }
                fields.put_all_headers();
                return self.object(Object::Headers, fields);
            }
            // The target is written as it was sent.
            Object::Request if matches!(name, b"uri" | b"url") => Slot::Target.into(),
            Object::Request => names::field(name, &Name::EMPTY.join(name)),
            Object::Fields(outer) => {
                let joined = outer.join(name);
                if first == Some(&b'{') {
                    return match nested(&joined, fields) {
                        Some(object) => self.object(object, fields),
                        None => self.skip(),
                    };
                }
                names::field(name, &joined)
            }
        };
        match first {
            // Caddy writes a list of values per header.
            Some(b'[') if matches!(object, Object::Headers) => self.values(&field, fields),
            Some(b'{' | b'[') => self.skip(),
            _ => self.value(&field, fields),
        }
    }

    fn values(&mut self, field: &Field, fields: &mut Fields) -> Result<(), Malformed> {
        self.expect(b'[')?;
        self.blank();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.blank();
            self.value(field, fields)?;
            self.blank();
            if self.take(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Parses a string, a number, or a word.
    fn value(&mut self, field: &Field, fields: &mut Fields) -> Result<(), Malformed> {
        let (mut part, escapes) = if self.line.get(self.at) == Some(&b'"') {
            self.string()?
        } else {
            (self.scalar()?, Escapes::None)
        };
        match (&self.line[part.clone()], &field.slot) {
            (REDACTED, Slot::Header(name)) => fields.put_header(name, field.rank, Header::NotRecorded),
            (text, _) => {
                if text == b"null" {
                    part.end = part.start;
                }
                fields.put(self.line, part, field, escapes);
            }
        }
        Ok(())
    }

    /// Returns the byte range between quotation marks, and whether it contains escape sequences.
    #[inline]
    fn string(&mut self) -> Result<(Range<usize>, Escapes), Malformed> {
        self.expect(b'"')?;
        let (start, mut escapes) = (self.at, Escapes::None);
        loop {
            let found = memchr::memchr2(b'"', b'\\', &self.line[self.at..]).ok_or(Malformed::Fields)?;
            let end = self.at + found;
            if self.line[end] == b'"' {
                self.at = end + 1;
                return Ok((start..end, escapes));
            }
            escapes = Escapes::Json;
            self.at = (end + 2).min(self.line.len());
        }
    }

    fn scalar(&mut self) -> Result<Range<usize>, Malformed> {
        let start = self.at;
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        self.at += self.line[start..].iter().take_while(is_part).count();
        if self.at == start { Err(Malformed::Fields) } else { Ok(start..self.at) }
    }

    /// Skips a value, including nested values.
    fn skip(&mut self) -> Result<(), Malformed> {
        let mut depth = 0_usize;
        loop {
            match self.line.get(self.at) {
                None => return Err(Malformed::Fields),
                Some(b'"') => _ = self.string()?,
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                Some(b'}' | b']') => {
                    depth = depth.checked_sub(1).ok_or(Malformed::Fields)?;
                    self.at += 1;
                }
                Some(_) if depth == 0 => _ = self.scalar()?,
                Some(_) => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn blank(&mut self) {
        let blank = self.line[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace());
        self.at += blank.count();
    }

    fn take(&mut self, byte: u8) -> bool {
        let matches = self.line.get(self.at) == Some(&byte);
        self.at += usize::from(matches);
        matches
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.take(byte) { Ok(()) } else { Err(Malformed::Fields) }
    }
}

/// Returns the object with a name, if it contains fields of the request.
fn nested(name: &Name, fields: &mut Fields) -> Option<Object> {
    Some(match name.as_bytes() {
        b"request" | b"req" => Object::Request,
        b"httprequest" => {
            // Google leaves out what the client did not send.
            fields.put_client_headers();
            Object::Fields(Name::EMPTY)
        }
        b"properties" | b"jsonpayload" | b"res" => Object::Fields(Name::EMPTY),
        // The Elastic Common Schema.
        b"http" | b"httpresponse" | b"httpresponsebody" | b"url" | b"client" | b"useragent" => {
            Object::Fields(*name)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http::{Version, header};
    use proptest::prelude::*;

    use super::*;
    use counter_layer::Outcome;

    use crate::{Format, Header, Parser};

    #[test]
    fn caddy_lines_are_parsed() {
        let line = br#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.1","remote_port":"41342","client_ip":"198.51.100.7","proto":"HTTP/2.0","method":"GET","host":"www.example.org","uri":"/articles/7?a=\"b\u0026c\"","headers":{"User-Agent":["curl/7.82.0"],"Cookie":["REDACTED"],"X-Forwarded-For":["192.0.2.7","192.0.2.8, 10.0.0.1"],"Accept":[]},"tls":{"resumed":false,"proto":"h2","server_name":"}"}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Type":["text/html"]}}"#;
        let mut parser = Parser::new(Format::json());
        let line = parser.parse(line).expect("it fits").expect("not empty");
        assert_eq!((line.at.as_unix(), line.method), (1_646_861_401, Some(&b"GET"[..])));
        assert_eq!(line.target, br#"/articles/7?a="b&c""#);
        assert_eq!(line.outcome, Outcome::Responded(http::StatusCode::OK));
        // Caddy determines this address with the trusted proxies.
        assert_eq!(line.peer, Some([198, 51, 100, 7].into()));
        assert_eq!((line.version, line.host), (Some(Version::HTTP_2), Some(&b"www.example.org"[..])));
        assert_eq!((line.bytes, line.duration.map(|time| time.as_nanos())), (Some(10_900), Some(929_675)));
        assert_eq!(line.user_agent(), Header::Sent(&b"curl/7.82.0"[..]));
        assert_eq!(line.header(&header::COOKIE), Header::NotRecorded);
        assert_eq!(line.referer(), Header::NotSent);
        let forwarded = line.headers().filter(|(name, _)| *name == "x-forwarded-for");
        assert_eq!(
            forwarded.map(|(_, value)| value).collect::<Vec<_>>(),
            [&b"192.0.2.7"[..], b"192.0.2.8, 10.0.0.1"]
        );
    }

    #[test]
    fn nginx_lines_with_common_names_are_parsed() {
        let lines = [
            r#"{"time_local":"10/Oct/2000:13:55:36 -0700","remote_addr":"192.0.2.1","request":"GET /a?b HTTP/1.1","status":"200","body_bytes_sent":"7","http_referer":"","http_user_agent":"A \"B\" \u001f","request_time":"0.005","http_x_forwarded_for":"192.0.2.7"}"#,
            r#" { "@timestamp" : "2000-10-10T20:55:36+00:00" , "clientip" : "192.0.2.1" , "request_method" : "GET" , "request_uri" : "/a?b" , "status" : 200 , "size" : 7 , "agent" : "A \"B\" \u001f" , "duration": 5e-3, "duration" : 0.005 , "x_forwarded_for" : "192.0.2.7", "tags": ["a", {"]": 1}], "nothing": null } "#,
        ];
        for line in lines {
            let mut parser = Parser::new(Format::json());
            let line = parser.parse(line.as_bytes()).expect("it fits").expect("not empty");
            assert_eq!((line.at.as_unix(), line.target), (971_211_336, &b"/a?b"[..]));
            assert_eq!((line.bytes, line.duration.map(|time| time.as_millis())), (Some(7), Some(5)));
            assert_eq!(line.user_agent(), Header::Sent(&b"A \"B\" \x1f"[..]));
            assert_ne!(line.referer().sent(), Some(&b""[..]));
            let forwarded = line.header(&HeaderName::from_static("x-forwarded-for"));
            assert_eq!(forwarded, Header::Sent(&b"192.0.2.7"[..]));
            assert_eq!(line.peer, Some([192, 0, 2, 1].into()));
        }
    }

    #[test]
    fn invalid_json_and_incomplete_requests_are_malformed() {
        for (line, reason) in [
            ("{", Malformed::Fields),
            ("[]", Malformed::Fields),
            ("{}{}", Malformed::Fields),
            (r#"{"a":}"#, Malformed::Fields),
            (r#"{"a":[[}"#, Malformed::Fields),
            (r#"{"a":"\"}"#, Malformed::Fields),
            ("{}", Malformed::Time),
            (r#"{"ts":1646861401,"status":200}"#, Malformed::Request),
            (r#"{"ts":1646861401,"request":"GET / HTTP/1.1","status":"2000"}"#, Malformed::Status),
            (r#"{"ts":"now","request":"GET / HTTP/1.1","status":200}"#, Malformed::Time),
            (r#"{"remote_addr":"localhost"}"#, Malformed::Time),
        ] {
            let found = Parser::new(Format::json()).parse(line.as_bytes()).map(drop);
            assert_eq!(found, Err(reason), "{line}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            r#"(\PC|["\\\x00-\x1f{}\[\]]){0,12}"#.prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map(r#"(headers|request|[a-z"\\{}]{0,6})"#, inner, 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn unknown_members_are_skipped(
            other in prop::collection::btree_map(r"x[a-z]{0,5}", json(), 0..6),
            target in r#"/(\PC|["\\\x00-\x1f]){0,20}"#,
        ) {
            let mut members: serde_json::Map<_, _> = other.into_iter().collect();
            members.insert("request_uri".to_owned(), target.clone().into());
            members.insert("method".to_owned(), "GET".into());
            members.insert("status".to_owned(), 200.into());
            members.insert("ts".to_owned(), 1_646_861_401.into());
            for line in [serde_json::to_string(&members), serde_json::to_string_pretty(&members)] {
                let line = line.expect("JSON");
                let mut parser = Parser::new(Format::json());
                let line = parser.parse(line.as_bytes()).expect("it fits").expect("not empty");
                prop_assert_eq!(line.target, target.as_bytes());
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            signs in r#"[{}\[\]:,"\\u0-9a-f .-]{0,60}"#,
        ) {
            for line in [&bytes[..], signs.as_bytes()] {
                _ = Parser::new(Format::json()).parse(line);
                _ = Parser::new(Format::json()).parse(&[b"{\"request\":", line].concat());
            }
        }
    }
}
