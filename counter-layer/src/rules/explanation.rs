use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use http::Method;

use crate::rules::PatternKind;

/// Which counter a request feeds besides the one of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision<'a> {
    /// It is excluded.
    Excluded,
    /// None.
    Unmatched,
    /// This one.
    Count {
        /// The name of the counter.
        counter: &'a str,
        /// As how many requests it counts.
        weight: NonZeroU32,
        /// Whether its visitor counts as well.
        visitors: bool,
    },
}

/// What [`Rules`](crate::Rules) decide about a request, and why; its `Display` says it in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The path as it was compared with patterns; none if it was not.
    pub path: Option<Cow<'a, str>>,
    /// What decided.
    pub reason: Reason<'a>,
}

/// What decides about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// The path has this many bytes, more than are matched.
    PathTooLong(usize),
    /// It is excluded by this pattern.
    Excluded {
        /// As it was given.
        pattern: &'a str,
        /// Its kind.
        kind: PatternKind,
    },
    /// A rule matches.
    Rule {
        /// The pattern that matched, as it was given.
        pattern: &'a str,
        /// Its kind, of which it is the most specific one.
        kind: PatternKind,
        /// The counter of the rule.
        counter: &'a str,
        /// The weight of the rule.
        weight: NonZeroU32,
        /// Whether the rule counts visitors.
        visitors: bool,
    },
    /// No rule matches, but the server's router had this template, which names the counter.
    MatchedPath(&'a str),
    /// No rule matches, and this is the counter of such requests.
    Otherwise(&'a str),
    /// No rule matches.
    Unmatched,
}

impl<'a> Explanation<'a> {
    /// What is decided.
    #[must_use]
    pub const fn decision(&self) -> Decision<'a> {
        self.reason.decision()
    }
}

impl<'a> Reason<'a> {
    /// What is decided for this reason.
    #[must_use]
    pub const fn decision(&self) -> Decision<'a> {
        match *self {
            Self::Excluded { .. } => Decision::Excluded,
            Self::PathTooLong(_) | Self::Unmatched => Decision::Unmatched,
            Self::Rule { counter, weight, visitors, .. } => Decision::Count { counter, weight, visitors },
            Self::MatchedPath(counter) | Self::Otherwise(counter) => {
                Decision::Count { counter, weight: NonZeroU32::MIN, visitors: true }
            }
        }
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.method)?;
        match (&self.path, self.reason) {
            (Some(path), _) => write!(f, "{path} ")?,
            (None, Reason::PathTooLong(_)) => {}
            (None, _) => f.write_str("of no path ")?,
        }
        match self.reason {
            Reason::PathTooLong(bytes) => {
                write!(f, "of a path of {bytes} bytes is not matched: it is longer than {}", super::MAX_PATH)
            }
            Reason::Excluded { pattern, kind } => {
                write!(f, "is excluded by the {kind} pattern {pattern:?}, whatever the rules say")
            }
            Reason::Rule { pattern, kind, counter, weight, visitors } => {
                write!(f, "counts under {counter:?}")?;
                if weight > NonZeroU32::MIN {
                    write!(f, " as {weight}")?;
                }
                if !visitors {
                    f.write_str(" without its visitor")?;
                }
                write!(f, " by the {kind} pattern {pattern:?}: {}", why(kind))
            }
            Reason::MatchedPath(template) => {
                write!(f, "counts under {template:?}, the router's template, since no rule matches")
            }
            Reason::Otherwise(counter) => write!(f, "counts under {counter:?}, since no rule matches"),
            Reason::Unmatched => f.write_str("is matched by no rule"),
        }
    }
}

const fn why(kind: PatternKind) -> &'static str {
    match kind {
        PatternKind::Exact => "exact patterns come first",
        PatternKind::Template => "no exact pattern matches, and it is the most specific template",
        PatternKind::Prefix => "no exact pattern and no template match, and it is the longest prefix",
        PatternKind::Extension => "no exact pattern, no template and no prefix match",
    }
}
