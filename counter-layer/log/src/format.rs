//! Access log formats, and the line parser.

mod clock;
mod escapes;
mod fields;
mod names;
pub(super) mod pattern;
mod w3c;
mod json;
mod pairs;
mod prefix;
mod log_format;
pub(super) mod zone;
pub(super) mod detect;

use std::fmt;
use std::str::FromStr;

use crate::line::Line;
use crate::malformed::Malformed;
use fields::Fields;
pub(super) use fields::X_FORWARDED_FOR;
use pairs::Pairs;
use pattern::{FormatError, Pattern};
use prefix::Stripped;
use w3c::Directives;
use zone::LogTimeZone;

/// The format of an access log.
///
/// ```
/// use counter_log::{Format, Parser};
///
/// let mut parser = Parser::new(Format::combined());
/// let line = br#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /articles/7 HTTP/1.1" 200 2326 "-" "Mozilla/5.0""#;
/// let line = parser.parse(line)?.expect("not a comment");
/// assert_eq!((line.target, line.at.as_unix()), (&b"/articles/7"[..], 971_211_336));
/// # Ok::<(), counter_log::Malformed>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Pattern(Pattern),
    W3c,
    Json,
    Pairs(Pairs),
}

/// Parses lines of a format.
///
/// A parser reuses the memory of earlier lines.
///
/// ```
/// use counter_log::{Format, Parser};
///
/// let mut parser = Parser::new(Format::combined());
/// let text = br#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /?page=2 HTTP/1.1" 404 7 "-" "curl/8""#;
/// let line = parser.parse(text)?.expect("not a comment");
/// assert_eq!(line.target, b"/?page=2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Parser {
    format: Format,
    directives: Directives,
    fields: Fields,
    /// The line, if it was written as a text with escape sequences.
    unwrapped: Vec<u8>,
}

/// Maximum length of a line in bytes: 64 KiB.
pub const MAX_LINE: usize = 65_536;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Patterns with a name. In a pattern with a dollar sign, fields are variables of nginx. If a line matches more than one,
/// the first is used.
const PATTERNS: [(&str, &str); 12] = [
    ("vhost_combined", r#"%v:%p %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#),
    ("vhost", r#"%v %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#),
    ("main", r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i""#),
    ("combined", r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#),
    ("unquoted_agent", r#"%h %l %u %t "%r" %>s %b "%{Referer}i" %{User-Agent}i"#),
    ("unquoted", r#"%h %l %u %t "%r" %>s %b %{Referer}i %{User-Agent}i"#),
    ("vhost_common", r#"%v %h %l %u %t "%r" %>s %b"#),
    ("common", r#"%h %l %u %t "%r" %>s %b"#),
    (
        "alb",
        r#"$type $time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $s2 $in $out "$request" "$http_user_agent""#,
    ),
    (
        "elb",
        r#"$time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $s2 $in $out "$request" "$http_user_agent""#,
    ),
    (
        "s3",
        r#"$owner $bucket [$time_local] $remote_addr $requester $id $operation $key "$request" $status $error $body_bytes_sent $size $total $turn "$http_referer" "$http_user_agent""#,
    ),
    (
        "haproxy",
        r#"$remote_addr [$time_local] $frontend $backend $times $status $out $c1 $c2 $state "$request""#,
    ),
];

impl Format {
    /// Returns the common log format of Apache: `%h %l %u %t "%r" %>s %b`. It does not contain the user agent, so bots
    /// can't be told from people.
    #[must_use]
    pub fn common() -> Self {
        Self::known("common")
    }

    /// Returns the combined log format of Apache and nginx: the common format with `"%{Referer}i"` and
    /// `"%{User-Agent}i"`.
    #[must_use]
    pub fn combined() -> Self {
        Self::known("combined")
    }

    /// Returns the W3C extended log format, used by IIS and CloudFront. Directives (`#Fields:`, `#Date:`) can
    /// occur anywhere, and apply to the lines that follow.
    ///
    /// IIS replaces spaces in headers by `+`. If a user agent contains `+`, it will thus be read as a space.
    #[must_use]
    pub const fn w3c() -> Self {
        Self(Kind::W3c)
    }

    /// Returns the format with a JSON object per line, as written by Caddy, Traefik, nginx with `escape=json`, and the
    /// load balancers of Cloudflare, Google and Azure. Fields are known by [name](crate::guide#names).
    #[must_use]
    pub const fn json() -> Self {
        Self(Kind::Json)
    }

    /// Compiles a pattern in the Apache
    /// [`LogFormat`](https://httpd.apache.org/docs/2.4/mod/mod_log_config.html#formats) syntax.
    ///
    /// | directive | field |
    /// |---|---|
    /// | `%h` `%a` `%{c}a` | the peer; the leftmost is used |
    /// | `%t` `%{sec}t` `%{msec}t` `%{usec}t` | the time |
    /// | `%{format}t` | the time, with the `strftime` conversions `%d %e %m %b %h %Y %y %H %M %S %T %R %F %D %z %Z %s`; UTC without a zone |
    /// | `%r`, or `%m`, `%U`, `%q` and `%H` | the request |
    /// | `%s` `%>s` | the status |
    /// | `%{Name}i` | any request header |
    /// | `%v` `%V` | the site name |
    /// | `%b` `%B` `%O` | the bytes sent |
    /// | `%D` `%T` `%{s}T` `%{ms}T` `%{us}T` | the duration |
    ///
    /// Other directives are skipped, up to the literal that follows. You can escape quotation marks with a
    /// backslash, like in a configuration file. Lines can contain additional fields at the end.
    ///
    /// # Errors
    /// Fails if a directive is not supported, if the end of a field is ambiguous, or if the pattern lacks the
    /// time or the request.
    pub fn pattern(pattern: &str) -> Result<Self, FormatError> {
        Pattern::new(pattern).map(Kind::Pattern).map(Self)
    }

    /// Compiles a format of nginx: a string with variables, or a whole
    /// [`log_format`](https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format) directive, copied from the
    /// configuration.
    ///
    /// ```
    /// use counter_log::{Format, Parser};
    ///
    /// let format = Format::log_format(
    ///     r#"log_format timed escape=json '$remote_addr [$time_local] "$request" '
    ///                                     '$status $request_time "$http_user_agent"';"#,
    /// )?;
    /// let line = br#"192.0.2.1 [10/Oct/2000:13:55:36 -0700] "GET /articles/7 HTTP/1.1" 200 0.125 "Mozilla/5.0""#;
    /// let mut parser = Parser::new(format);
    /// let line = parser.parse(line)?.expect("not a comment");
    /// assert_eq!((line.target, line.at.as_unix()), (&b"/articles/7"[..], 971_211_336));
    /// assert_eq!(line.duration.map(|time| time.as_millis()), Some(125));
    ///
    /// let error = Format::log_format("$remote_addr [$time_local] $status").unwrap_err();
    /// assert_eq!(error.to_string(), "the format does not contain $request");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// | variable | field |
    /// |---|---|
    /// | `$remote_addr` | the peer |
    /// | `$time_local` `$time_iso8601` `$msec` | the time |
    /// | `$request`, or `$request_method` with `$request_uri` or `$uri$is_args$args`, and optionally `$server_protocol` | the request |
    /// | `$status` | the status |
    /// | `$http_name` | any request header |
    /// | `$host` `$server_name` | the site name |
    /// | `$body_bytes_sent` | the bytes sent |
    /// | `$request_time` | the duration |
    ///
    /// Other variables are skipped, up to the literal that follows. Escape sequences are those of `escape=`.
    ///
    /// # Errors
    /// Fails if a variable lacks the closing brace, if the end of a variable is ambiguous, or if the format lacks the
    /// time or the request.
    pub fn log_format(text: &str) -> Result<Self, FormatError> {
        log_format::compile(text).map(Kind::Pattern).map(Self)
    }

    /// Returns `true` if the log can contain directives that apply to later lines. If you don't start at the
    /// beginning, you must pass all earlier lines that start with `#` to the [`Parser`].
    #[must_use]
    pub const fn has_directives(&self) -> bool {
        matches!(self.0, Kind::W3c)
    }

    fn known(name: &str) -> Self {
        Self::named(name).expect("the name is in the list")
    }

    /// Returns the format with a name.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "w3c" => Self(Kind::W3c),
            "json" | "caddy" | "nginx" | "traefik" | "cloudflare" | "google" | "azure" => Self(Kind::Json),
            "ltsv" => Self(Kind::Pairs(Pairs::Ltsv)),
            "logfmt" => Self(Kind::Pairs(Pairs::Logfmt)),
            _ => {
                let (_, pattern) = PATTERNS.iter().find(|(known, _)| *known == name)?;
                pattern.parse().expect("the patterns in the list are valid")
            }
        })
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// Parses a [name](crate::guide#formats) such as `combined`, a [format of nginx](Format::log_format) if there is a
    /// dollar sign but no percent sign, or a [pattern](Format::pattern).
    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            format if format.contains('$') && !format.contains('%') => Self::log_format(format),
            pattern if pattern.contains('%') => Self::pattern(pattern),
            name => Self::named(name).ok_or_else(|| FormatError::Name { name: name.to_owned() }),
        }
    }
}

impl Parser {
    /// Creates a parser for this format. Times without a time zone are in UTC.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, directives: Directives::default(), fields: Fields::default(), unwrapped: Vec::new() }
    }

    /// Sets the time zone of times without a time zone. A date and time in the [W3C](Format::w3c) format are in UTC,
    /// unless the names say that they are local.
    #[must_use]
    pub fn time_zone(self, zone: LogTimeZone) -> Self {
        Self { fields: Fields::new(Some(zone.0)), ..self }
    }

    /// Parses a line, with or without the line ending. Returns `None` for empty lines, and for directives in
    /// [`Format::w3c`].
    ///
    /// A byte order mark is ignored, and so is the prefix of syslog (RFC 3164 and 5424) and of containers, unless the
    /// format starts with it. For Docker, this is the line inside of the JSON object.
    ///
    /// # Errors
    /// Fails if the line is not a valid request.
    pub fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Line<'a>>, Malformed> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        if line.len() > MAX_LINE {
            return Err(Malformed::TooLong);
        }
        let Stripped { line, time } = match &self.format.0 {
            Kind::Pattern(pattern) if pattern.may_start_like(line) => Stripped { line, time: &[] },
            _ => prefix::strip(line, &mut self.unwrapped),
        };
        if line.is_empty() {
            return Ok(None);
        }
        self.fields.clear();
        match &self.format.0 {
            Kind::Pattern(pattern) => pattern.read(line, &mut self.fields)?,
            Kind::Json => json::read(line, &mut self.fields)?,
            Kind::Pairs(pairs) => pairs.read(line, &mut self.fields)?,
            Kind::W3c if line[0] == b'#' => {
                self.directives.read_directive(line);
                return Ok(None);
            }
            Kind::W3c => self.directives.read(line, &mut self.fields)?,
        }
        if !time.is_empty() {
            self.fields.put_time(time);
        }
        self.fields.line(line).map(Some)
    }
}

/// Returns `true` for a line with a directive, which can be needed to parse later lines.
pub(crate) fn is_directive(line: &[u8]) -> bool {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).starts_with(b"#")
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser").field("format", &self.format).finish_non_exhaustive()
    }
}
