use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use http::Method;

use super::pattern::PatternKind;
use crate::request::path;

/// The counter of a request in addition to `hits`, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision<'a> {
    /// Not counted: the path has this number of bytes, which is above the maximum.
    PathTooLong(usize),
    /// Not counted: the request is excluded by this pattern.
    Excluded {
        /// The pattern, as given.
        pattern: &'a str,
        /// The pattern kind.
        kind: PatternKind,
    },
    /// The counter of a matching rule.
    Rule {
        /// The matched pattern, as given.
        pattern: &'a str,
        /// The pattern kind. This is the most specific pattern of this kind.
        kind: PatternKind,
        /// The rule counter.
        counter: &'a str,
        /// The rule weight.
        weight: NonZeroU32,
        /// Set if the rule counts visitors.
        visitors: bool,
    },
    /// The template matched by the server's router, used as counter name because no rule matched.
    MatchedPath(&'a str),
    /// The default counter, used if a request does not match otherwise.
    DefaultCounter(&'a str),
    /// Not counted, because nothing matched.
    Unmatched,
}

/// A decision of [`Rules`](crate::Rules) with the request. Use `Display` to get an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation<'a> {
    /// The request method.
    pub method: &'a Method,
    /// The normalised path used for matching; `None` if the path was invalid.
    pub path: Option<Cow<'a, str>>,
    /// The decision.
    pub decision: Decision<'a>,
    /// Set if the decision was made without a route template, but might be different with a template, because
    /// of [`by_matched_path`](crate::RulesBuilder::by_matched_path).
    pub without_matched_path: bool,
}

impl<'a> Decision<'a> {
    /// Returns the counter name, or `None` if the request is excluded or unmatched.
    #[must_use]
    pub const fn counter(&self) -> Option<&'a str> {
        match *self {
            Self::PathTooLong(_) | Self::Excluded { .. } | Self::Unmatched => None,
            Self::Rule { counter, .. } | Self::MatchedPath(counter) | Self::DefaultCounter(counter) => {
                Some(counter)
            }
        }
    }

    /// Returns how often the request counts, i.e. the rule weight or 1.
    #[must_use]
    pub const fn weight(&self) -> NonZeroU32 {
        match *self {
            Self::Rule { weight, .. } => weight,
            _ => NonZeroU32::MIN,
        }
    }

    /// Returns `true` if the request matches an excluded pattern.
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
            (None, _) => f.write_str("without a path ")?,
        }
        match self.decision {
            Decision::PathTooLong(bytes) => {
                write!(f, "with a path of {bytes} bytes is not matched: the maximum is {}", path::MAX_BYTES)
            }
            Decision::Excluded { pattern, kind } => {
                write!(f, "is excluded by the {kind} pattern {pattern:?}, which takes precedence over rules")
            }
            Decision::Rule { pattern, kind, counter, weight, visitors } => {
                write!(f, "counts under {counter:?}")?;
                if weight > NonZeroU32::MIN {
                    write!(f, " as {weight}")?;
                }
                if !visitors {
                    f.write_str(" without visitors")?;
                }
                write!(f, " by the {kind} pattern {pattern:?}: {}", reason(kind))
            }
            Decision::MatchedPath(template) => {
                write!(f, "counts under {template:?}, the router template, because no rule matches")
            }
            Decision::DefaultCounter(counter) => {
                write!(f, "counts under {counter:?}, because no rule matches")
            }
            Decision::Unmatched => f.write_str("does not match any rule"),
        }?;
        if self.without_matched_path {
            f.write_str(", unless the router matches a route: then it counts under the route template")?;
        }
        Ok(())
    }
}

const fn reason(kind: PatternKind) -> &'static str {
    match kind {
        PatternKind::Exact => "exact patterns take precedence",
        PatternKind::Template => "no exact pattern matches, and this is the most specific template",
        PatternKind::Prefix => "no exact pattern or template matches, and this is the longest prefix",
        PatternKind::Extension => "no exact pattern, template or prefix matches",
    }
}
