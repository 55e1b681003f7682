use std::fmt;

use counter_core::visits::CounterNameError;
use http::Method;

use crate::request::path;

/// Error returned if rules are ambiguous or can't match.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesError {
    /// A pattern is invalid.
    Pattern {
        /// The text, as given.
        pattern: String,
        /// The reason.
        reason: PatternError,
    },
    /// A counter name is invalid.
    Counter {
        /// The name, as given.
        counter: String,
        /// The reason.
        reason: CounterNameError,
    },
    /// The counter name is reserved by the layer.
    Reserved {
        /// The name.
        counter: String,
    },
    /// The rule for this counter does not have a pattern.
    NoPattern {
        /// The counter.
        counter: String,
    },
    /// A rule contains a method that is not in upper case.
    Method {
        /// The rule counter.
        counter: String,
        /// The method.
        method: Method,
    },
    /// Two rules have patterns of equal rank that match the same requests.
    Conflict {
        /// The patterns, in rule order.
        patterns: [String; 2],
        /// The counters of the rules.
        counters: [String; 2],
    },
    /// A rule has two patterns of equal rank that match the same requests.
    DuplicatePattern {
        /// The patterns.
        patterns: [String; 2],
        /// The rule counter.
        counter: String,
    },
    /// Two excluded patterns of equal rank match the same requests.
    DuplicateExclude {
        /// The patterns.
        patterns: [String; 2],
    },
}

/// Error returned if a pattern is invalid. `Display` includes a suggestion.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is `/`.
    BareSlash,
    /// The pattern does not start with `/` or `*.`.
    MissingSlash,
    /// A segment starts with a colon.
    Colon(String),
    /// A segment contains a `*` but is not the last segment, or contains other characters too.
    Star(String),
    /// The pattern ends in `/*` but has parameters.
    PrefixAfterParameter,
    /// The text after `*.` is not a single extension.
    Extension,
    /// A segment contains an unpaired brace.
    Brace(String),
    /// A segment contains a parameter with an empty name.
    EmptyName(String),
    /// A segment continues after the parameter.
    TextAfterParameter(String),
    /// A catch-all is not the last segment.
    CatchAllNotLast(String),
    /// The pattern contains a query or fragment.
    Query,
    /// The pattern contains a control character.
    ControlCharacter,
    /// The pattern is longer than the maximum path length.
    TooLong,
    /// The pattern contains two consecutive slashes, which are not part of a normal path.
    EmptySegment,
    /// The pattern contains the segment `.` or `..`, which is not part of a normal path.
    DotSegment,
    /// A segment contains a path parameter, which is not part of a normal path.
    PathParameter(String),
    /// A percent-encoding is written differently in a normal path.
    Encoding {
        /// The text, as given.
        text: String,
        /// The normalised text.
        normal: String,
    },
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { pattern, reason } => write!(f, "the pattern {pattern:?} {reason}"),
            Self::Counter { counter, reason } => write!(f, "invalid counter name {counter:?}: {reason}"),
            Self::Reserved { counter } => {
                write!(f, "the counter name {counter:?} is reserved: choose another name")
            }
            Self::NoPattern { counter } => write!(
                f,
                "the rule for {counter:?} has no pattern: add a pattern, or use default_counter() for requests that match no rule"
            ),
            Self::Method { counter, method } => {
                let upper = method.as_str().to_ascii_uppercase();
                write!(f, "the rule for {counter:?} has the method {method}: write {upper}")
            }
            Self::Conflict { patterns: [one, other], counters: [first, second] } => write!(
                f,
                "the patterns {one:?} for {first:?} and {other:?} for {second:?} match the same requests: \
                 remove one, or give the rules different methods"
            ),
            Self::DuplicatePattern { patterns: [one, other], counter } => write!(
                f,
                "the patterns {one:?} and {other:?}, both for {counter:?}, match the same requests: \
                 remove one"
            ),
            Self::DuplicateExclude { patterns: [one, other] } => {
                write!(f, "the excluded patterns {one:?} and {other:?} match the same requests: remove one")
            }
        }
    }
}

impl std::error::Error for RulesError {}

counter_core::internal::debug_in_full!(RulesError);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BareSlash => f.write_str(
                "is ambiguous, since it could mean the default or the home page: \
                 write the empty pattern for the home page, and use default_counter() for the rest",
            ),
            Self::MissingSlash => f.write_str("does not start with a slash: write one, or *.ext"),
            Self::Colon(segment) => {
                let name = segment.trim_start_matches(':');
                write!(f, "has the segment {segment:?}, which would only match literally: write {{{name}}}")
            }
            Self::Star(segment) => write!(
                f,
                "has a star in {segment:?}: write {{name}} for one segment, \
                 /* at the end for everything below, or *.ext for an extension"
            ),
            Self::PrefixAfterParameter => f.write_str("has parameters before /*: write /{*rest}"),
            Self::Extension => f.write_str(
                "is not a single extension: write *. and the part after the last dot of a file name, such as *.html",
            ),
            Self::Brace(segment) => write!(
                f,
                "has an unpaired brace in {segment:?}: write {{name}} for a parameter, \
                 and %7B and %7D for braces"
            ),
            Self::EmptyName(segment) => {
                write!(f, "has a parameter without a name in {segment:?}: write {{name}} or {{*name}}")
            }
            Self::TextAfterParameter(segment) => {
                write!(f, "has text after the parameter in {segment:?}: end the segment with the parameter")
            }
            Self::CatchAllNotLast(segment) => {
                write!(f, "continues after {segment:?}: write {{name}} for one segment, or end with the catch-all")
            }
            Self::Query => f.write_str("has a query or a fragment: write the path only"),
            Self::ControlCharacter => f.write_str("has a control character: write its percent-encoding"),
            Self::TooLong => write!(f, "is longer than {} bytes: write a shorter one", path::MAX_BYTES),
            Self::EmptySegment => f.write_str("has two slashes in a row: write one"),
            Self::DotSegment => {
                f.write_str("has the segment . or .., which is not allowed: write the resolved path")
            }
            Self::PathParameter(segment) => write!(
                f,
                "has a path parameter in {segment:?}, which is removed from paths: remove it, or write %3B"
            ),
            Self::Encoding { text, normal } => {
                write!(f, "has the encoding {text:?}, which is not normal: write {normal}")
            }
        }
    }
}

impl std::error::Error for PatternError {}

counter_core::internal::debug_in_full!(PatternError);
