//! Formats of access logs, and the parser of their lines.

mod clock;
mod escapes;
mod fields;
pub(super) mod pattern;
mod w3c;
mod json;
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

/// Reads lines of one format.
///
/// It allocates nothing once it has room for a line.
#[derive(Clone)]
pub struct Parser {
    format: Format,
    directives: Directives,
    fields: Fields,
}

/// The most bytes that a line has: 64 KiB.
pub const MAX_LINE: usize = 65_536;

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
const MAIN: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i""#;

impl Format {
    /// Returns the common log format, of CERN's httpd and all since: `%h %l %u %t "%r" %>s %b`.
    #[must_use]
    pub fn common() -> Self {
        Self::known(COMMON)
    }

    /// Returns the combined log format, the usual one of Apache and nginx: the common one with `"%{Referer}i"` and
    /// `"%{User-Agent}i"`.
    #[must_use]
    pub fn combined() -> Self {
        Self::known(COMBINED)
    }

    /// Returns the combined log format behind the name of the site and its port, `%v:%p`: the one of Debian's Apache
    /// that is called `vhost_combined`.
    #[must_use]
    pub fn vhost_combined() -> Self {
        Self::known(VHOST_COMBINED)
    }

    /// Returns the combined log format with `"%{X-Forwarded-For}i"`: the one that nginx's own configuration calls
    /// `main`.
    #[must_use]
    pub fn main() -> Self {
        Self::known(MAIN)
    }

    /// Returns the extended format of the W3C, which IIS and CloudFront write. Directives (`#Fields:`, `#Date:`) may stand
    /// anywhere, and hold for the lines behind them.
    ///
    /// IIS writes `+` for a space in a header, so that a user agent with a `+` is not the one that the service saw.
    #[must_use]
    pub const fn w3c() -> Self {
        Self(Kind::W3c)
    }

    /// Returns the format of Caddy: an object of JSON in each line.
    #[must_use]
    pub const fn caddy() -> Self {
        Self(Kind::Json)
    }

    /// Returns the format of nginx with `escape=json`, under the names of its variables (`remote_addr`, `time_iso8601`,
    /// `request`, `http_user_agent` or any other `http_` header) and those that many give them, such as `clientip`,
    /// `@timestamp` and `user_agent`.
    ///
    /// It is read as [`caddy`](Self::caddy) is.
    #[must_use]
    pub const fn nginx() -> Self {
        Self(Kind::Json)
    }

    /// Returns the format of a pattern in the words of Apache's
    /// [`LogFormat`](https://httpd.apache.org/docs/2.4/mod/mod_log_config.html#formats).
    ///
    /// | directive | what is read |
    /// |---|---|
    /// | `%h` `%a` `%{c}a` | the peer; the first of them counts |
    /// | `%t` `%{sec}t` `%{msec}t` `%{usec}t` | the time |
    /// | `%{format}t` | the time by the conversions `%d %e %m %b %h %Y %y %H %M %S %T %R %F %D %z %Z %s` of `strftime`; UTC without a zone |
    /// | `%r`, or `%m`, `%U`, `%q` and `%H` | the request |
    /// | `%s` `%>s` | the status |
    /// | `%{Name}i` | any header of the request |
    /// | `%v` `%V` | the name of the site |
    /// | `%b` `%B` `%O` | the bytes sent |
    /// | `%D` `%T` `%{s}T` `%{ms}T` `%{us}T` | the duration |
    ///
    /// All others are skipped as text up to what follows them. Backslashes before quotation marks, as in a
    /// configuration file, are fine, and so are fields that a line has behind the pattern.
    ///
    /// # Errors
    /// When a directive cannot be understood, when nothing tells where its field ends, or when a pattern has no
    /// time, no request, or no status.
    pub fn pattern(pattern: &str) -> Result<Self, FormatError> {
        Pattern::new(pattern).map(Kind::Pattern).map(Self)
    }

    /// Returns `true` if directives in a log say how the lines behind them are read: who begins in the middle gives the
    /// [`Parser`] the lines before that begin with `#`.
    #[must_use]
    pub const fn has_directives(&self) -> bool {
        matches!(self.0, Kind::W3c)
    }

    fn known(pattern: &str) -> Self {
        Self::pattern(pattern).expect("the patterns of this file can be used")
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// Returns the format of this name (`common`, `combined`, `vhost_combined`, `main`, `w3c`, `caddy`, `nginx`), or of
    /// this [pattern](Format::pattern).
    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "common" => Ok(Self::common()),
            "combined" => Ok(Self::combined()),
            "vhost_combined" => Ok(Self::vhost_combined()),
            "main" => Ok(Self::main()),
            "w3c" => Ok(Self::w3c()),
            "caddy" => Ok(Self::caddy()),
            "nginx" => Ok(Self::nginx()),
            pattern => Self::pattern(pattern),
        }
    }
}

impl Parser {
    /// Creates a parser of this format.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, directives: Directives::default(), fields: Fields::default() }
    }

    /// Reads a line, with or without its end; `None` for an empty one, and for a directive of [`Format::w3c`].
    ///
    /// # Errors
    /// When the line says no request, with the reason.
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
