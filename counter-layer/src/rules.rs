mod error;
mod pattern;
mod rule;
mod literals;
mod table;
mod decision;
mod builder;
#[cfg(feature = "serde")]
mod config;

use std::num::NonZeroU32;

use http::Method;

use crate::request::is_private;
use crate::request::path::{self, PathError};
use pattern::Pattern;
use table::Table;

pub use builder::RulesBuilder;
pub use decision::{Decision, Explanation};
pub use error::{PatternError, RulesError};

pub use pattern::PatternKind;
pub use rule::Rule;

/// Rules to find the counter of a request.
///
/// ```
/// use counter_layer::{Rule, Rules};
/// use http::Method;
///
/// let rules = Rules::builder()
///     .rule(Rule::counter("articles").pattern("/articles/{id}").pattern("*.html"))
///     .rule(Rule::counter("signups").pattern("/signup").method(Method::POST))
///     .exclude("/static/*")
///     .default_counter("pages")
///     .build()?;
///
/// let counter = |method, path| rules.decide(&method, path, None).counter();
/// assert_eq!(counter(Method::GET, "/articles/7"), Some("articles"));
/// assert_eq!(counter(Method::GET, "/about/us.html;jsessionid=1"), Some("articles"));
/// assert_eq!(counter(Method::POST, "/signup"), Some("signups"));
/// assert_eq!(counter(Method::GET, "/signup"), Some("pages"));
/// assert_eq!(counter(Method::GET, "/static/help.html"), None);
/// assert_eq!(
///     rules.explain(&Method::GET, "/static/help.html", None).to_string(),
///     r#"GET /static/help.html is excluded by the prefix pattern "/static/*", which takes precedence over rules"#,
/// );
/// # Ok::<(), counter_layer::RulesError>(())
/// ```
///
/// # Patterns
///
/// Patterns follow the url-patterns in the Jakarta Servlet specification 6.0 (§12.2) and the path templates
/// of axum.
///
/// | kind | pattern | matches |
/// |---|---|---|
/// | exact | `/catalog` | `/catalog`, but not `/catalog/` or anything below |
/// | exact | empty | `/`, the home page |
/// | template | `/articles/{id}` | one non-empty segment for `{id}` |
/// | template | `/by-{name}/books` | the same with a literal, can be empty except at the end of the template |
/// | template | `/files/{*rest}` | everything below `/files/`, but not `/files` or `/files/` |
/// | prefix | `/static/*` | `/static`, `/static/` and everything below |
/// | prefix | `/*` | all paths |
/// | extension | `*.html` | a last segment with `html` after the last dot (case-sensitive) |
///
/// The pattern `/` is rejected, because it means the default in the specification, but the home page
/// elsewhere. Patterns that can never match are rejected too, e.g. `/articles/:id` or `/a/*/b`. Characters
/// that are not allowed in a path match the percent-encoding, i.e. `/café` is the same as `/caf%C3%A9`.
///
/// # Precedence
///
/// 1. An excluded pattern of any kind.
/// 2. The exact pattern.
/// 3. The template: at the first difference between two templates, a literal wins over a parameter. Templates
///    are not part of the specification; they come before prefixes because they are more specific, so
///    `/articles/{*rest}` wins over `/articles/drafts/*`.
/// 4. The longest prefix.
/// 5. The extension.
/// 6. The template of the server's router, if you set [`by_matched_path`](RulesBuilder::by_matched_path).
/// 7. The counter set via [`default_counter`](RulesBuilder::default_counter).
///
/// A rule with methods is ignored for requests with other methods. `GET` includes `HEAD`, but a rule with
/// `HEAD` for the same pattern takes precedence. If two patterns of equal rank match the same requests,
/// building the rules will fail: this is the case for the same pattern, even with different parameter names,
/// and for `/a/{name}` with `/a/{*rest}`, which is a conflict in any router. You can use the same pattern in
/// rules with different methods.
///
/// # Paths
///
/// Before matching, paths are normalised to the form used by patterns (RFC 3986 §6.2.2, and §3.5.2 of the
/// servlet specification), in this order:
///
/// - The query, the fragment and path parameters are removed: `/a;jsessionid=1` is `/a`.
/// - Percent-encodings of unreserved characters are decoded once: `/%61` is `/a`. Other encodings are kept in
///   upper case, so `%2F` is not a separator, and bytes that are not UTF-8 are compared in encoded form.
///   Characters not allowed in a path are encoded, and so is the percent sign of an invalid encoding: `/100%`
///   is `/100%25`.
/// - Consecutive slashes are merged; then `.` and `..` are resolved, but can't go above the root.
///
/// A trailing slash is significant, except for prefixes. A path longer than 8,192 bytes is not matched.
/// `OPTIONS *` and the authority of `CONNECT` are not paths, and don't match any pattern.
///
/// The path is never used as a counter name, except for existing [gRPC](crate::guide::rules#grpc) methods.
/// Thus the number of counters is limited by the rules and templates, regardless of the paths requested by a
/// scanner.
#[derive(Clone, Debug)]
pub struct Rules {
    exclusions: Vec<Pattern>,
    excluded: Table,
    rules: Vec<Resolved>,
    patterns: Vec<Included>,
    /// Pattern tables of the methods that rules name. With a small number of methods, a scan is faster than
    /// hashing.
    by_method: Vec<(Method, Table)>,
    other_methods: Table,
    by_matched_path: bool,
    default_counter: Option<String>,
    exclude_prefetch: bool,
}

/// Counter, weight and visitor setting of a rule.
#[derive(Clone, Debug)]
struct Resolved {
    counter: String,
    weight: NonZeroU32,
    visitors: bool,
}

/// A decision with pattern numbers instead of names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Match<'a> {
    Excluded(usize),
    Included(usize),
    MatchedPath(&'a str),
    DefaultCounter,
    Unmatched,
    /// Length of the path in bytes.
    PathTooLong(usize),
}

/// A pattern with the number of its rule.
#[derive(Clone, Debug)]
struct Included {
    pattern: Pattern,
    rule: usize,
}

impl Rules {
    /// Returns an empty builder, with rules that don't match anything.
    pub fn builder() -> RulesBuilder {
        RulesBuilder::default()
    }

    /// Decides a request with this path, and the template matched by the server's router, if any.
    ///
    /// This does not scan a list of rules. It allocates if the path is not normalised, for templates where a
    /// literal and a parameter both match, and for templates with more than four parameters.
    #[must_use]
    pub fn decide<'a>(&'a self, method: &Method, path: &str, matched_path: Option<&'a str>) -> Decision<'a> {
        let found = self.by_path(method, path);
        self.resolve(found.unwrap_or_else(|| self.by_default(|| matched_path)))
    }

    /// Decides like [`decide`](Self::decide), and returns the decision with the normalised request.
    ///
    /// The route template is only known to the router. If you don't pass it, the explanation mentions that
    /// the template might lead to a different decision.
    ///
    /// Neither function can see the headers, so [`exclude_prefetch`](RulesBuilder::exclude_prefetch) is not
    /// applied.
    #[must_use]
    pub fn explain<'a>(
        &'a self,
        method: &'a Method,
        path: &'a str,
        matched_path: Option<&'a str>,
    ) -> Explanation<'a> {
        let path = path::normalise(path);
        let found = self.by_normal_path(method, path.as_deref());
        let decision = self.resolve(found.unwrap_or_else(|| self.by_default(|| matched_path)));
        let by_default = matches!(decision, Decision::DefaultCounter(_) | Decision::Unmatched);
        let without_matched_path = self.by_matched_path && matched_path.is_none() && by_default;
        Explanation { method, path: path.ok(), decision, without_matched_path }
    }

    /// Returns the counter names of all rules, which may contain duplicates. Templates are not included.
    pub fn counters(&self) -> impl Iterator<Item = &str> {
        let named = self.rules.iter().map(|rule| &*rule.counter);
        named.chain(self.default_counter.as_deref())
    }

    pub(crate) const fn excludes_prefetch(&self) -> bool {
        self.exclude_prefetch
    }

    /// Matches a request by path. This takes precedence over the route template.
    pub(crate) fn by_path(&self, method: &Method, path: &str) -> Option<Match<'static>> {
        self.by_normal_path(method, path::normalise(path).as_deref())
    }

    /// Returns the number of the table used for this method. Methods with the same table lead to the same
    /// decision.
    #[inline]
    pub(crate) fn table_of(&self, method: &Method) -> u64 {
        (0..)
            .zip(&self.by_method)
            .find_map(|(number, (of, _))| (of == method).then_some(number + 1))
            .unwrap_or(0)
    }

    /// Returns counter, weight and visitor setting by pattern number.
    pub(crate) fn included(&self) -> impl Iterator<Item = (&str, NonZeroU32, bool)> {
        let rules = self.patterns.iter().map(|included| &self.rules[included.rule]);
        rules.map(|Resolved { counter, weight, visitors }| (&**counter, *weight, *visitors))
    }

    /// Returns the counter for requests with no other match.
    pub(crate) fn default_counter(&self) -> Option<&str> {
        self.default_counter.as_deref()
    }

    fn by_normal_path(&self, method: &Method, path: Result<&str, &PathError>) -> Option<Match<'static>> {
        match path {
            Ok(path) => self.by_pattern(method, path),
            Err(PathError::NotAPath) => None,
            Err(PathError::TooLong(bytes)) => Some(Match::PathTooLong(*bytes)),
        }
    }

    #[inline]
    fn by_pattern(&self, method: &Method, path: &str) -> Option<Match<'static>> {
        if !self.exclusions.is_empty()
            && let Some(number) = self.excluded.find(path)
        {
            return Some(Match::Excluded(number));
        }
        let of_method = self.by_method.iter().find(|(of, _)| of == method);
        let table = of_method.map_or(&self.other_methods, |(_, table)| table);
        table.find(path).map(Match::Included)
    }

    /// Decides a request that did not match by path.
    pub(crate) fn by_default<'a>(&self, matched_path: impl FnOnce() -> Option<&'a str>) -> Match<'a> {
        match self.by_matched_path.then(matched_path).flatten().filter(|template| !is_private(template)) {
            Some(template) => Match::MatchedPath(template),
            None if self.default_counter.is_some() => Match::DefaultCounter,
            None => Match::Unmatched,
        }
    }

    fn resolve<'a>(&'a self, found: Match<'a>) -> Decision<'a> {
        match found {
            Match::PathTooLong(bytes) => Decision::PathTooLong(bytes),
            Match::Excluded(number) => {
                let Pattern { text, kind, .. } = &self.exclusions[number];
                Decision::Excluded { pattern: text, kind: *kind }
            }
            Match::Included(number) => {
                let Included { pattern, rule } = &self.patterns[number];
                let Resolved { counter, weight, visitors } = &self.rules[*rule];
                let (weight, visitors) = (*weight, *visitors);
                Decision::Rule { pattern: &pattern.text, kind: pattern.kind, counter, weight, visitors }
            }
            Match::MatchedPath(template) => Decision::MatchedPath(template),
            Match::DefaultCounter => {
                self.default_counter.as_deref().map_or(Decision::Unmatched, Decision::DefaultCounter)
            }
            Match::Unmatched => Decision::Unmatched,
        }
    }
}

impl Match<'static> {
    /// Encodes a match as a number, for the cache of recent paths.
    pub(crate) fn number(found: Option<Self>) -> u64 {
        let (number, kind) = match found {
            Some(Self::Included(number)) => (number, 1),
            Some(Self::Excluded(number)) => (number, 2),
            Some(Self::PathTooLong(bytes)) => (bytes, 3),
            None | Some(Self::MatchedPath(_) | Self::DefaultCounter | Self::Unmatched) => (0, 0),
        };
        (number as u64) << 2 | kind
    }

    /// Decodes a match from a number.
    #[inline]
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        let (kind, number) = (number & 3, usize::try_from(number >> 2).unwrap_or_default());
        match kind {
            1 => Some(Self::Included(number)),
            2 => Some(Self::Excluded(number)),
            3 => Some(Self::PathTooLong(number)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod laws;
