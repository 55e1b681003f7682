//! Compiled patterns, and their Apache `LogFormat` syntax.

use std::fmt;
use std::ops::Range;

use http::HeaderName;

use super::clock::{Strftime, TimeForm};
use super::escapes::Escapes;
use super::fields::{Field, Fields, Slot};
use crate::malformed::Malformed;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The literal before the first directive.
    beginning: Box<[u8]>,
    steps: Box<[Step]>,
    escapes: Escapes,
}

/// The parts of a pattern that is being compiled.
#[derive(Default)]
pub(super) struct Steps {
    beginning: Vec<u8>,
    steps: Vec<(Slot, Vec<u8>)>,
}

/// A directive, and the literal after it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    field: Field,
    literal: Box<[u8]>,
    is_quoted: bool,
    /// True if a time in the common log format follows.
    is_before_time: bool,
}

/// The reason why a pattern or a format is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The directive is incomplete.
    Unfinished {
        /// The column of the directive, counted from 1.
        column: usize,
    },
    /// The directives are adjacent, so the end of the field is ambiguous.
    Adjacent {
        /// The second directive.
        directive: String,
        /// The column of the directive, counted from 1.
        column: usize,
    },
    /// The argument is not supported. This can be a time conversion, a unit, or a header name.
    Argument {
        /// The directive.
        directive: String,
        /// The column of the directive, counted from 1.
        column: usize,
        /// The unsupported part of the argument.
        argument: String,
    },
    /// There is no format with this name.
    Name {
        /// The name.
        name: String,
    },
    /// The format lacks a required field.
    Missing {
        /// The missing directive.
        directive: &'static str,
    },
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, FormatError> {
        let mut compiler = Compiler { rest: pattern, column: 1, steps: Steps::default() };
        while let Some(next) = compiler.next() {
            match next {
                '%' => compiler.directive()?,
                '\\' => compiler.escape(),
                other => compiler.steps.literal(other),
            }
        }
        compiler.steps.finish(["%t", "%r"], Escapes::Backslash)
    }

    /// Returns `true` if the start of a line could be mistaken for a [prefix](super::prefix).
    pub(super) fn may_start_like(&self, line: &[u8]) -> bool {
        let starts_with_time = || {
            self.steps.first().is_some_and(|step| matches!(step.field.slot, Slot::Time(_) | Slot::LocalDate))
        };
        if self.beginning.is_empty() { starts_with_time() } else { line.starts_with(&self.beginning) }
    }

    /// Parses a line into `fields`.
    #[inline]
    pub(super) fn read(&self, line: &[u8], fields: &mut Fields) -> Result<(), Malformed> {
        if !line.starts_with(&self.beginning) {
            return Err(Malformed::Fields);
        }
        let mut at = self.beginning.len();
        for step in &self.steps {
            let (part, end) = step.find(line.get(at..).unwrap_or_default()).ok_or(Malformed::Fields)?;
            fields.put(line, at + part.start..at + part.end, &step.field, self.escapes);
            at += end;
            // Some servers write more than one space between fields.
            while line.get(at) == Some(&b' ') && step.literal.ends_with(b" ") {
                at += 1;
            }
        }
        // Known formats are often extended with additional fields at the end.
        match line.get(at) {
            None | Some(b' ' | b'\t') => Ok(()),
            Some(_) => Err(Malformed::Fields),
        }
    }
}

impl Step {
    /// Returns the byte range of the field, and the position at which the rest of the text starts.
    #[inline]
    fn find(&self, text: &[u8]) -> Option<(Range<usize>, usize)> {
        match &self.field.slot {
            Slot::Time(TimeForm::Clf) if text.first() == Some(&b'[') => {
                let end = memchr::memchr(b']', text)?;
                Some((1..end, self.literal_at(text, end + 1)?))
            }
            Slot::Time(TimeForm::Strftime(format)) => {
                let (_, end) = format.read_prefix(text)?;
                Some((0..end, self.literal_at(text, end)?))
            }
            slot => match &*self.literal {
                [] if matches!(slot, Slot::Request | Slot::Header(_) | Slot::Skipped) => {
                    Some((0..text.len(), text.len()))
                }
                [] => {
                    let end = memchr::memchr2(b' ', b'\t', text).unwrap_or(text.len());
                    Some((0..end, end))
                }
                [b'"', ..] if self.is_quoted => {
                    let end = self.closing_quote(text)?;
                    Some((0..end, end + self.literal.len()))
                }
                [first, ..] => memchr::memchr_iter(*first, text).find_map(|end| {
                    let next = self.literal_at(text, end)?;
                    self.ends(&text[..end], &text[next..]).then_some((0..end, next))
                }),
            },
        }
    }

    /// Returns the position after the literal, if it is at this position, possibly after more than one space.
    #[inline]
    fn literal_at(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        if rest.starts_with(&self.literal) {
            return Some(at + self.literal.len());
        }
        let literal = self.literal.strip_prefix(b" ").filter(|_| rest.starts_with(b"  "))?;
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        rest[spaces..].starts_with(literal).then_some(at + spaces + literal.len())
    }

    /// Returns `true` if the field ends before this literal, so that the rest of the text follows. A user name or a list
    /// of addresses can contain spaces.
    #[inline]
    fn ends(&self, text: &[u8], rest: &[u8]) -> bool {
        if self.is_before_time {
            // A hyphen stands for a missing user, so another field would follow.
            return is_time(rest) || text == b"-";
        }
        !(matches!(self.field.slot, Slot::Peer | Slot::Header(_)) && text.ends_with(b","))
    }

    /// Finds the closing quotation mark: it must not be escaped, and the literal of the pattern must follow.
    /// We treat any other quotation mark as part of the text, because some servers don't escape.
    #[inline]
    fn closing_quote(&self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let found = at + memchr::memchr2(b'"', b'\\', &text[at..])?;
            if text[found] == b'\\' {
                // Skip the escaped byte.
                at = (found + 2).min(text.len());
            } else if text[found..].starts_with(&self.literal) {
                return Some(found);
            } else {
                at = found + 1;
            }
        }
    }
}

/// Returns `true` if a text starts like a time in the common log format, after any spaces.
fn is_time(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start(), [b'[', _, _, b'/', ..] | [_, _, b'/', ..])
}

struct Compiler<'a> {
    rest: &'a str,
    /// The column of the next character.
    column: usize,
    steps: Steps,
}

impl Compiler<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        self.column += 1;
        Some(next)
    }

    /// Handles a backslash like in an Apache configuration file.
    fn escape(&mut self) {
        let char = match self.rest.chars().next() {
            Some('t') => '\t',
            Some('n') => '\n',
            Some(char @ ('"' | '\\')) => char,
            _ => return self.steps.literal('\\'),
        };
        self.next();
        self.steps.literal(char);
    }

    /// Parses the rest of a directive: optional conditions, `<` or `>`, an optional argument, and a letter.
    fn directive(&mut self) -> Result<(), FormatError> {
        let (column, from) = (self.column - 1, self.rest);
        let unfinished = FormatError::Unfinished { column };
        let mut argument = None;
        let letter = loop {
            match self.next() {
                None => return Err(unfinished),
                Some('{') => {
                    let end = self.rest.find('}').ok_or(unfinished.clone())?;
                    argument = Some(&from[from.len() - self.rest.len()..][..end]);
                    self.column += self.rest[..=end].chars().count();
                    self.rest = &self.rest[end + 1..];
                }
                Some('0'..='9' | ',' | '!' | '<' | '>') => {}
                // `%^FB` and trailers have additional letters.
                Some('^') => {
                    let names = ["FB", "ti", "to"];
                    let length =
                        names.iter().find(|name| self.rest.starts_with(**name)).map_or(0, |name| name.len());
                    self.rest = &self.rest[length..];
                    self.column += length;
                    break '^';
                }
                Some(letter) => break letter,
            }
        };
        let directive = format!("%{}", &from[..from.len() - self.rest.len()]);
        if letter == '%' {
            self.steps.literal('%');
            return Ok(());
        }
        let rejected = |argument: &str| FormatError::Argument {
            directive: directive.clone(),
            column,
            argument: argument.to_owned(),
        };
        let slot = slot(letter, argument).map_err(|argument| rejected(&argument))?;
        self.steps.push(slot, &directive, column)
    }
}

impl Steps {
    pub(super) fn literal(&mut self, char: char) {
        let text = self.steps.last_mut().map_or(&mut self.beginning, |(_, literal)| literal);
        text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Adds a directive or variable at a column.
    pub(super) fn push(&mut self, slot: Slot, directive: &str, column: usize) -> Result<(), FormatError> {
        match self.steps.last() {
            // `%U%q` is a special case, as both are parts of the target.
            Some((Slot::Path, literal)) if literal.is_empty() && slot == Slot::Query => Ok(()),
            Some((_, literal)) if literal.is_empty() => {
                Err(FormatError::Adjacent { directive: directive.to_owned(), column })
            }
            _ => {
                self.steps.push((slot, Vec::new()));
                Ok(())
            }
        }
    }

    /// Completes the pattern. The names are the directives for the time and the request, which are required.
    pub(super) fn finish(self, names: [&'static str; 2], escapes: Escapes) -> Result<Pattern, FormatError> {
        let has = |predicate: fn(&Slot) -> bool| self.steps.iter().any(|(slot, _)| predicate(slot));
        let checks = [
            has(|slot| matches!(slot, Slot::Time(_))),
            has(|slot| matches!(slot, Slot::Request | Slot::Target | Slot::Path)),
        ];
        if let Some((_, directive)) = checks.into_iter().zip(names).find(|(is_present, _)| !is_present) {
            return Err(FormatError::Missing { directive });
        }
        let mut is_quoted = self.beginning.ends_with(b"\"");
        let mut steps: Vec<_> = self
            .steps
            .into_iter()
            .map(|(slot, literal)| {
                let (field, literal) = (slot.into(), literal.into_boxed_slice());
                let step = Step {
                    field,
                    is_quoted: is_quoted && literal.starts_with(b"\""),
                    literal,
                    is_before_time: false,
                };
                is_quoted = step.literal.ends_with(b"\"");
                step
            })
            .collect();
        for at in 1..steps.len() {
            let is_time = steps[at].field.slot == Slot::Time(TimeForm::Clf);
            steps[at - 1].is_before_time = is_time && &*steps[at - 1].literal == b" ";
        }
        Ok(Pattern { steps: steps.into(), beginning: self.beginning.into(), escapes })
    }
}

/// Returns the slot of a directive. Fails with the unsupported part of the argument.
fn slot(letter: char, argument: Option<&str>) -> Result<Slot, String> {
    Ok(match (letter, argument) {
        ('h' | 'a', None) | ('a', Some("c")) => Slot::Peer,
        ('t', None) => Slot::Time(TimeForm::Clf),
        ('t', Some(format)) => time(format)?,
        ('r', None) => Slot::Request,
        ('m', None) => Slot::Method,
        ('U', None) => Slot::Path,
        ('q', None) => Slot::Query,
        ('H', None) => Slot::Protocol,
        ('v' | 'V', None) => Slot::Host,
        ('s', None) => Slot::Status,
        // This must not include `%O`, which contains the size of the head.
        ('b' | 'B', None) => Slot::Bytes,
        ('D', None) | ('T', Some("us")) => Slot::Duration(1_000_000),
        ('T', None | Some("s")) => Slot::Duration(1),
        ('T', Some("ms")) => Slot::Duration(1_000),
        ('T', Some(unit)) => return Err(unit.to_owned()),
        ('i', Some(name)) => {
            Slot::Header(HeaderName::from_bytes(name.as_bytes()).map_err(|_| name.to_owned())?)
        }
        _ => Slot::Skipped,
    })
}

fn time(format: &str) -> Result<Slot, String> {
    let format = format.strip_prefix("begin:").or_else(|| format.strip_prefix("end:")).unwrap_or(format);
    Ok(match format {
        "" => Slot::Time(TimeForm::Clf),
        "sec" => Slot::Time(TimeForm::Seconds),
        "msec" => Slot::Time(TimeForm::Milliseconds),
        "usec" => Slot::Time(TimeForm::Microseconds),
        "msec_frac" | "usec_frac" => Slot::Skipped,
        format => Slot::Time(TimeForm::Strftime(Strftime::new(format)?)),
    })
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfinished { column } => write!(f, "the directive at column {column} is incomplete"),
            Self::Adjacent { directive, column } => {
                write!(f, "missing separator before {directive} at column {column}")
            }
            Self::Argument { directive, column, argument } => {
                write!(f, "{argument:?} in {directive} at column {column} is not supported")
            }
            Self::Name { name } => write!(
                f,
                "{name:?} is neither the name of a format (such as combined, common, json, w3c), nor a format string"
            ),
            Self::Missing { directive } => write!(f, "the format does not contain {directive}"),
        }
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use counter_layer::Outcome;

    use crate::{Format, Header, Parser};

    const LINE: &str = r#"192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326"#;

    #[track_caller]
    fn rejected(pattern: &str, message: &str) {
        assert_eq!(Pattern::new(pattern).expect_err(pattern).to_string(), message);
    }

    #[test]
    fn invalid_patterns_are_reported_with_directive_and_column() {
        rejected("%h %", "the directive at column 4 is incomplete");
        rejected("é %{Referer", "the directive at column 3 is incomplete");
        rejected("%h%l %t", "missing separator before %l at column 3");
        rejected("%h %{%Y %A}t", "\"%A\" in %{%Y %A}t at column 4 is not supported");
        rejected("%h %!200,304{a b}i", "\"a b\" in %!200,304{a b}i at column 4 is not supported");
        rejected("%{h}T", "\"h\" in %{h}T at column 1 is not supported");
        rejected("%>s \"%r\"", "the format does not contain %t");
        rejected("%>s %m %t", "the format does not contain %r");
    }

    #[test]
    fn directives_fill_slots_and_unknown_directives_are_skipped() {
        let pattern =
            r#"%{%Y-%m-%dT%H:%M:%S%z}t|%v:%p %{c}a "%m %U%q %H" %>s %I/%B %{ms}T "%{User-agent}i" %{x}n"#;
        let line = r#"2000-10-10T13:55:36-07:00|www.example.org:443 192.0.2.1 "GET /a b?c HTTP/1.1" 404 12/345 678 "A \"B\" \x41" x y"#;
        let mut parser = Parser::new(Format::pattern(pattern).expect("a pattern"));
        // The end of `%U` is ambiguous if it contains a space.
        assert_eq!(parser.parse(line.as_bytes()).err(), None);
        let line = line.replace("/a b", "/\u{fc}");
        let line = parser.parse(line.as_bytes()).expect("it fits").expect("a request");
        assert_eq!(line.at.as_unix(), 971_211_336);
        assert_eq!((line.method, line.target), (Some(&b"GET"[..]), &b"/%C3%BC?c"[..]));
        assert_eq!(line.host, Some(&b"www.example.org"[..]));
        assert_eq!(line.peer, Some([192, 0, 2, 1].into()));
        assert_eq!(line.outcome, Outcome::Responded(http::StatusCode::NOT_FOUND));
        assert_eq!((line.bytes, line.duration), (Some(345), Some(std::time::Duration::from_millis(678))));
        assert_eq!(line.user_agent(), Header::Sent(&b"A \"B\" A"[..]));
    }

    #[test]
    fn patterns_can_be_escaped_like_in_a_configuration_file() {
        let mut escaped = Parser::new(Format::pattern(r#"%h %l %u %t \"%r\" %>s %b"#).expect("a pattern"));
        let line = escaped.parse(LINE.as_bytes()).expect("it fits").expect("a request");
        assert_eq!((line.target, line.bytes), (&b"/a.gif"[..], Some(2326)));
    }

    #[test]
    fn a_quotation_mark_only_ends_a_text_if_the_literal_follows() {
        let mut parser = Parser::new(Format::combined());
        for (written, meant) in [
            (r#"a \"b\" c"#, r#"a "b" c"#),
            (r#"a \" c"#, r#"a " c"#),
            (r#"a "b" c"#, r#"a "b" c"#),
            (r"a \\", r"a \"),
            ("a \\x22 \\x5C", "a \" \\"),
        ] {
            let line = format!(r#"{LINE} "{written}" "Firefox""#);
            let line = parser.parse(line.as_bytes()).expect("it fits").expect("a request");
            assert_eq!(line.referer(), Header::Sent(meant.as_bytes()), "{written}");
            assert_eq!(line.user_agent(), Header::Sent(&b"Firefox"[..]));
        }
        assert_eq!(
            parser.parse(format!(r#"{LINE} "a\" "Firefox"#).as_bytes()).err(),
            Some(Malformed::Fields)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_patterns_and_lines_do_not_panic(
            pattern in r#"(%[!>0-9]{0,2}(\{(\PC|%[YmdHMSz]){0,8}\})?[a-zA-Z%^]|[" \\\[\]:|]|\PC){0,20}"#,
            line in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let compiled = Pattern::new(&pattern);
            let with = Pattern::new(&format!("{pattern} %t \"%r\" %>s"));
            for pattern in [compiled, with].into_iter().flatten() {
                let mut fields = Fields::default();
                if pattern.read(&line, &mut fields).is_ok() {
                    _ = fields.line(&line);
                }
            }
        }
    }
}
