use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use http::Method;

use super::path;
use super::pattern::PatternKind;

/// The counter that a request feeds besides the one of all requests, and the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision<'a> {
    /// No counter: the path has this many bytes, more than are matched.
    PathTooLong(usize),
    /// No counter: the request is excluded by this pattern.
    Excluded {
        /// The pattern, as it was given.
        pattern: &'a str,
        /// The kind of the pattern.
        kind: PatternKind,
    },
    /// The counter of a rule that matches.
    Rule {
        /// The pattern that matched, as it was given.
        pattern: &'a str,
        /// The kind of the pattern, of which it is the most specific one.
        kind: PatternKind,
        /// The counter of the rule.
        counter: &'a str,
        /// The weight of the rule.
        weight: NonZeroU32,
        /// The rule counts visitors.
        visitors: bool,
    },
    /// The template that the server's router matched, which names the counter where no rule matches.
    MatchedPath(&'a str),
    /// The counter of requests that nothing else matches.
    DefaultCounter(&'a str),
    /// No counter: nothing matches.
    Unmatched,
}

/// A decision of [`Rules`](crate::Rules) with the request it is about; its `Display` explains it in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The path in the form that was compared with patterns; `None` if there was none to compare.
    pub path: Option<Cow<'a, str>>,
    /// The decision.
    pub decision: Decision<'a>,
    /// Set if the decision is about a request that no route matched, since no template was given: the template of a
    /// route would decide otherwise, after [`by_matched_path`](crate::RulesBuilder::by_matched_path).
    pub without_matched_path: bool,
}

impl<'a> Decision<'a> {
    /// Returns the name of the counter, unless the request is excluded or unmatched.
    #[must_use]
    pub const fn counter(&self) -> Option<&'a str> {
        match *self {
            Self::PathTooLong(_) | Self::Excluded { .. } | Self::Unmatched => None,
            Self::Rule { counter, .. } | Self::MatchedPath(counter) | Self::DefaultCounter(counter) => {
                Some(counter)
            }
        }
    }

    /// Returns the number of requests that this one counts as: 1 unless a rule says more.
    #[must_use]
    pub const fn weight(&self) -> NonZeroU32 {
        match *self {
            Self::Rule { weight, .. } => weight,
            _ => NonZeroU32::MIN,
        }
    }

    /// Returns `true` if an excluded pattern matches the request.
    #[must_use]
    pub const fn is_excluded(&self) -> bool {
        matches!(self, Self::Excluded { .. })
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.method)?;
        match (&self.path, self.decision) {
            (Some(path), _) => write!(f, "{path} ")?,
            (None, Decision::PathTooLong(_)) => {}
            (None, _) => f.write_str("of no path ")?,
        }
        match self.decision {
            Decision::PathTooLong(bytes) => {
                write!(f, "of a path of {bytes} bytes is not matched: it is longer than {}", path::MAX_BYTES)
            }
            Decision::Excluded { pattern, kind } => {
                write!(f, "is excluded by the {kind} pattern {pattern:?}, whatever the rules say")
            }
            Decision::Rule { pattern, kind, counter, weight, visitors } => {
                write!(f, "counts under {counter:?}")?;
                if weight > NonZeroU32::MIN {
                    write!(f, " as {weight}")?;
                }
                if !visitors {
                    f.write_str(" without its visitor")?;
                }
                write!(f, " by the {kind} pattern {pattern:?}: {}", why(kind))
            }
            Decision::MatchedPath(template) => {
                write!(f, "counts under {template:?}, the router's template, since no rule matches")
            }
            Decision::DefaultCounter(counter) => write!(f, "counts under {counter:?}, since no rule matches"),
            Decision::Unmatched => f.write_str("is matched by no rule"),
        }?;
        if self.without_matched_path {
            f.write_str(
                ", unless the router matches a route: then it counts under the template of that route",
            )?;
        }
        Ok(())
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
