use std::fmt;

use counter_core::visits::CounterNameError;
use http::Method;

use crate::rules::path;

/// The reason why rules are ambiguous or cannot decide.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesError {
    /// A text is not a pattern.
    Pattern {
        /// The text, as it was given.
        pattern: String,
        /// The reason.
        reason: PatternError,
    },
    /// The name of a counter is not valid.
    Counter {
        /// The name, as it was given.
        counter: String,
        /// The reason.
        reason: CounterNameError,
    },
    /// The layer feeds the counter of this name itself.
    Reserved {
        /// The name.
        counter: String,
    },
    /// The rule for this counter has no pattern.
    NoPattern {
        /// The counter.
        counter: String,
    },
    /// A rule names a method that is not written in upper case, as methods are.
    Method {
        /// The counter of the rule.
        counter: String,
        /// The method.
        method: Method,
    },
    /// Patterns of two rules match the same requests with equal right.
    Tie {
        /// The two patterns, in the order of the rules.
        patterns: [String; 2],
        /// The counters of the two rules.
        counters: [String; 2],
    },
    /// One rule has two patterns that match the same requests with equal right.
    Repeated {
        /// The two patterns.
        patterns: [String; 2],
        /// The counter of the rule.
        counter: String,
    },
    /// Two excluded patterns match the same requests with equal right.
    ExcludedTwice {
        /// The two patterns.
        patterns: [String; 2],
    },
}

/// The reason why a text is not a pattern; its `Display` says what to write in its place.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is `/`.
    BareSlash,
    /// The pattern begins with neither `/` nor `*.`.
    MissingSlash,
    /// A segment that begins with a colon.
    Colon(String),
    /// A segment with a `*` that is more than a last segment of `*` alone.
    Star(String),
    /// The pattern ends in `/*` and has parameters.
    StarAfterTemplate,
    /// The part after `*.` is not one extension.
    Extension,
    /// A segment with an unpaired brace.
    Brace(String),
    /// A segment with a parameter that has no name.
    EmptyName(String),
    /// A segment that goes on after its parameter.
    AfterParameter(String),
    /// A catch-all that is not the last segment.
    CatchAllInside(String),
    /// The pattern has a query or a fragment.
    Query,
    /// The pattern has a control character.
    ControlCharacter,
    /// The pattern is longer than the longest path that is matched.
    TooLong,
    /// The pattern has two slashes in a row, which a normal path never has.
    EmptySegment,
    /// The pattern has the segment `.` or `..`, which a normal path never has.
    DotSegment,
    /// A segment with a path parameter, which a normal path never has.
    PathParameter(String),
    /// A percent-encoding that a normal path spells differently.
    Encoding {
        /// The text as it was given.
        text: String,
        /// The text to write.
        normal: String,
    },
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { pattern, reason } => write!(f, "the pattern {pattern:?} {reason}"),
            Self::Counter { counter, reason } => write!(f, "the counter {counter:?} cannot be: {reason}"),
            Self::Reserved { counter } => write!(
                f,
                "the counter {counter:?} is one that the layer feeds itself, and would mix up both: choose another name"
            ),
            Self::NoPattern { counter } => write!(
                f,
                "the rule for {counter:?} has no pattern: add one, or use default_counter() for what no rule matches"
            ),
            Self::Method { counter, method } => {
                let upper = method.as_str().to_ascii_uppercase();
                write!(f, "the rule for {counter:?} has the method {method}: write {upper}")
            }
            Self::Tie { patterns: [one, other], counters: [first, second] } => write!(
                f,
                "the patterns {one:?} for {first:?} and {other:?} for {second:?} match the same requests: \
                 leave one out, or give the rules different methods"
            ),
            Self::Repeated { patterns: [one, other], counter } => write!(
                f,
                "the patterns {one:?} and {other:?}, both for {counter:?}, match the same requests: \
                 leave one out"
            ),
            Self::ExcludedTwice { patterns: [one, other] } => write!(
                f,
                "the excluded patterns {one:?} and {other:?} match the same requests: leave one out"
            ),
        }
    }
}

impl std::error::Error for RulesError {}

counter_core::internal::debug_in_full!(RulesError);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BareSlash => f.write_str(
                "is what nothing else matched to some and the home page to others: \
                 write the empty pattern for the home page, and use default_counter() for the rest",
            ),
            Self::MissingSlash => f.write_str("does not begin with a slash: write one, or *.ext"),
            Self::Colon(segment) => {
                let name = segment.trim_start_matches(':');
                write!(f, "has the segment {segment:?}, which would match only itself: write {{{name}}}")
            }
            Self::Star(segment) => write!(
                f,
                "has a star in {segment:?}: write {{name}} for one segment, \
                 /* at the end for everything below, or *.ext for an extension"
            ),
            Self::StarAfterTemplate => f.write_str("has parameters before /*: write /{*rest}"),
            Self::Extension => f.write_str(
                "is not one extension: write *. and what follows the last dot of a name, such as *.html",
            ),
            Self::Brace(segment) => write!(
                f,
                "has an unpaired brace in {segment:?}: write {{name}} for a parameter, \
                 and %7B and %7D for braces"
            ),
            Self::EmptyName(segment) => {
                write!(f, "has a parameter without a name in {segment:?}: write {{name}} or {{*name}}")
            }
            Self::AfterParameter(segment) => {
                write!(f, "goes on after the parameter in {segment:?}: end the segment with it")
            }
            Self::CatchAllInside(segment) => {
                write!(f, "goes on after {segment:?}: write {{name}} for one segment, or end with it")
            }
            Self::Query => f.write_str("has a query or a fragment: write the path only"),
            Self::ControlCharacter => f.write_str("has a control character: write its percent-encoding"),
            Self::TooLong => write!(f, "is longer than {} bytes: write a shorter one", path::MAX_BYTES),
            Self::EmptySegment => f.write_str("has two slashes in a row: write one"),
            Self::DotSegment => {
                f.write_str("has the segment . or .., which no normal path has: write the path it leads to")
            }
            Self::PathParameter(segment) => write!(
                f,
                "has a path parameter in {segment:?}, which is cut from paths: write it without, or %3B"
            ),
            Self::Encoding { text, normal } => {
                write!(f, "has {text:?}, which a normal path spells otherwise: write {normal}")
            }
        }
    }
}

impl std::error::Error for PatternError {}

counter_core::internal::debug_in_full!(PatternError);
