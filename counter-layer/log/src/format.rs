//! Access log formats, and the line parser.

mod clock;
mod escapes;
mod fields;
pub(super) mod pattern;
mod w3c;
mod json;
mod log_format;
pub(super) mod detect;

use std::fmt;
use std::str::FromStr;

use crate::line::Line;
use crate::malformed::Malformed;
use fields::Fields;
use pattern::{FormatError, Pattern};
use w3c::Directives;

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
}

/// Maximum length of a line in bytes: 64 KiB.
pub const MAX_LINE: usize = 65_536;

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
const MAIN: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i""#;

impl Format {
    /// Returns the common log format: `%h %l %u %t "%r" %>s %b`.
    #[must_use]
    pub fn common() -> Self {
        Self::known(COMMON)
    }

    /// Returns the combined log format of Apache and nginx: the common format with `"%{Referer}i"` and
    /// `"%{User-Agent}i"`.
    #[must_use]
    pub fn combined() -> Self {
        Self::known(COMBINED)
    }

    /// Returns the format `vhost_combined` of Apache in Debian: the site name and the port (`%v:%p`),
    /// followed by the combined format.
    #[must_use]
    pub fn vhost_combined() -> Self {
        Self::known(VHOST_COMBINED)
    }

    /// Returns the format `main` in the default nginx configuration: the combined format, followed by
    /// `"%{X-Forwarded-For}i"`.
    #[must_use]
    pub fn main() -> Self {
        Self::known(MAIN)
    }

    /// Returns the W3C extended log format, used by IIS and CloudFront. Directives (`#Fields:`, `#Date:`) can
    /// occur anywhere, and apply to the lines that follow.
    ///
    /// IIS replaces spaces in headers by `+`. If a user agent contains `+`, it will thus be read as a space.
    #[must_use]
    pub const fn w3c() -> Self {
        Self(Kind::W3c)
    }

    /// Returns the Caddy format, with a JSON object per line.
    #[must_use]
    pub const fn caddy() -> Self {
        Self(Kind::Json)
    }

    /// Returns the nginx format with `escape=json`. Fields can have the name of the nginx variable
    /// (`remote_addr`, `time_iso8601`, `request`, `http_user_agent` or any other `http_` header), or a common
    /// name such as `clientip`, `@timestamp` and `user_agent`.
    ///
    /// This uses the same parser as [`caddy`](Self::caddy).
    #[must_use]
    pub const fn nginx() -> Self {
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
    /// time, the request or the status.
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
    /// time, the request or the status.
    pub fn log_format(text: &str) -> Result<Self, FormatError> {
        log_format::compile(text).map(Kind::Pattern).map(Self)
    }

    /// Returns `true` if the log can contain directives that apply to later lines. If you don't start at the
    /// beginning, you must pass all earlier lines that start with `#` to the [`Parser`].
    #[must_use]
    pub const fn has_directives(&self) -> bool {
        matches!(self.0, Kind::W3c)
    }

    fn known(pattern: &str) -> Self {
        Self::pattern(pattern).expect("built-in patterns are valid")
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// Parses a format name (`common`, `combined`, `vhost_combined`, `main`, `w3c`, `caddy`, `nginx`), a
    /// [format of nginx](Format::log_format) if there is a dollar sign but no percent sign, or a
    /// [pattern](Format::pattern).
    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "common" => Ok(Self::common()),
            "combined" => Ok(Self::combined()),
            "vhost_combined" => Ok(Self::vhost_combined()),
            "main" => Ok(Self::main()),
            "w3c" => Ok(Self::w3c()),
            "caddy" => Ok(Self::caddy()),
            "nginx" => Ok(Self::nginx()),
            format if format.contains('$') && !format.contains('%') => Self::log_format(format),
            pattern => Self::pattern(pattern),
        }
    }
}

impl Parser {
    /// Creates a parser for this format.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, directives: Directives::default(), fields: Fields::default() }
    }

    /// Parses a line, with or without the line ending. Returns `None` for empty lines, and for directives in
    /// [`Format::w3c`].
    ///
    /// # Errors
    /// Fails if the line is not a valid request.
    pub fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Line<'a>>, Malformed> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > MAX_LINE {
            return Err(Malformed::TooLong);
        }
        if line.is_empty() {
            return Ok(None);
        }
        self.fields.clear();
        match &self.format.0 {
            Kind::Pattern(pattern) => pattern.read(line, &mut self.fields)?,
            Kind::Json => json::read(line, &mut self.fields)?,
            Kind::W3c if line[0] == b'#' => {
                self.directives.read_directive(line);
                return Ok(None);
            }
            Kind::W3c => self.directives.read(line, &mut self.fields)?,
        }
        self.fields.line(line).map(Some)
    }
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser").field("format", &self.format).finish_non_exhaustive()
    }
}
