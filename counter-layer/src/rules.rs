mod path;
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
use path::Unusable;
use pattern::Pattern;
use table::Table;

pub use builder::RulesBuilder;
pub use decision::{Decision, Explanation};
pub use error::{PatternError, RulesError};

pub use pattern::PatternKind;
pub use rule::Rule;

/// Rules that find the counter of a request.
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
///     r#"GET /static/help.html is excluded by the prefix pattern "/static/*", whatever the rules say"#,
/// );
/// # Ok::<(), counter_layer::RulesError>(())
/// ```
///
/// # Patterns
///
/// They are the url-patterns of the Jakarta Servlet specification 6.0 (§12.2), and the path templates
/// of axum.
///
/// | kind | pattern | matches |
/// |---|---|---|
/// | exact | `/catalog` | `/catalog`, and neither `/catalog/` nor what is below |
/// | exact | the empty one | `/`, the home page |
/// | template | `/articles/{id}` | one segment that is not empty, in the place of `{id}` |
/// | template | `/by-{name}/books` | the same beside a literal, where it may be empty unless it ends the template |
/// | template | `/files/{*rest}` | everything below `/files/`, and neither `/files` nor `/files/` |
/// | prefix | `/static/*` | `/static`, `/static/` and everything below |
/// | prefix | `/*` | every path |
/// | extension | `*.html` | a last segment with `html` after its last dot, in that case of letters |
///
/// `/` alone is refused, since it means the rest in the specification and the home page elsewhere. So
/// is every pattern that could never match, such as `/articles/:id` or `/a/*/b`. A character that may
/// not stand in a path means its percent-encoding: `/café` is `/caf%C3%A9`.
///
/// # What decides
///
/// 1. An excluded pattern, of whatever kind.
/// 2. The exact pattern.
/// 3. The template: at the first difference between two, a literal wins over a parameter. The
///    specification has no templates; they stand here because they say more about a path than its
///    beginning does, so `/articles/{*rest}` wins over `/articles/drafts/*`.
/// 4. The longest prefix.
/// 5. The extension.
/// 6. The template of the server's router, after [`by_matched_path`](RulesBuilder::by_matched_path).
/// 7. The counter of [`default_counter`](RulesBuilder::default_counter).
///
/// A rule with methods is not there for requests of another method. `GET` takes `HEAD` with it, unless
/// a rule names `HEAD` for the same pattern. Two patterns that match the same requests with the same
/// right are an error when the rules are built: the same pattern, also with other names of parameters,
/// and `/a/{name}` beside `/a/{*rest}`, which no router holds together. The same pattern may stand in
/// several rules of different methods.
///
/// # Paths
///
/// Before it is compared, a path is brought into the one form that the patterns have (RFC 3986 §6.2.2,
/// and §3.5.2 of the servlet specification), in this order:
///
/// - A query and a fragment are cut off, and from every segment its parameters: `/a;jsessionid=1` is
///   `/a`.
/// - Percent-encodings of unreserved characters are decoded, once: `/%61` is `/a`. All others stay, in
///   upper case, so `%2F` separates nothing, and what is not UTF-8 is compared as it is encoded. A
///   character that may not stand in a path is encoded, and so is the percent sign of an invalid
///   encoding: `/100%` is `/100%25`.
/// - Several slashes become one; then `.` and `..` are resolved, and never lead above the root.
///
/// A slash at the end is significant, except under a prefix. A path of more than 8,192 bytes is
/// not matched. `OPTIONS *` and the authority of `CONNECT` are no paths, and no
/// pattern matches them.
///
/// The path itself never becomes the name of a counter, but for a method of [gRPC](crate::guide::rules#grpc) that
/// exists: there are as many counters as rules and templates name, whatever a scanner asks for.
#[derive(Clone, Debug)]
pub struct Rules {
    exclusions: Vec<Pattern>,
    excluded: Table,
    rules: Vec<Resolved>,
    patterns: Vec<Included>,
    /// Few: looking through them is faster than hashing.
    by_method: Vec<(Method, Table)>,
    other_methods: Table,
    by_matched_path: bool,
    default_counter: Option<String>,
    exclude_prefetch: bool,
}

/// The counter, weight and treatment of visitors of a rule.
#[derive(Clone, Debug)]
struct Resolved {
    counter: String,
    weight: NonZeroU32,
    visitors: bool,
}

/// A decision before its names are looked up: patterns by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Match<'a> {
    Excluded(usize),
    Included(usize),
    MatchedPath(&'a str),
    DefaultCounter,
    Unmatched,
    /// The path has this many bytes.
    PathTooLong(usize),
}

/// A pattern and the number of its rule.
#[derive(Clone, Debug)]
struct Included {
    pattern: Pattern,
    rule: usize,
}

impl Rules {
    /// Returns a builder without rules, by which nothing matches.
    pub fn builder() -> RulesBuilder {
        RulesBuilder::default()
    }

    /// Decides about a request with this path, for which the server's router matched this template, if any.
    ///
    /// It goes through no list of rules. It allocates for a path that is not in normal form, and for
    /// templates where a literal and a parameter compete for it or there are more than four parameters.
    #[must_use]
    pub fn decide<'a>(&'a self, method: &Method, path: &str, matched_path: Option<&'a str>) -> Decision<'a> {
        let found = self.by_path(method, path);
        self.resolve(found.unwrap_or_else(|| self.by_default(|| matched_path)))
    }

    /// Decides as [`decide`](Self::decide) does, and returns the decision with the request as it was
    /// compared.
    ///
    /// Without the template of a route, which nothing but the router knows, the explanation says where that template
    /// would decide in place of what it says.
    ///
    /// Neither knows the headers, and so neither applies
    /// [`exclude_prefetch`](RulesBuilder::exclude_prefetch).
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

    /// Returns the names of all counters that rules feed, some perhaps more than once; not those of
    /// templates.
    pub fn counters(&self) -> impl Iterator<Item = &str> {
        let named = self.rules.iter().map(|rule| &*rule.counter);
        named.chain(self.default_counter.as_deref())
    }

    pub(crate) const fn excludes_prefetch(&self) -> bool {
        self.exclude_prefetch
    }

    /// Matches a request by its path, which decides before the template of its route does.
    pub(crate) fn by_path(&self, method: &Method, path: &str) -> Option<Match<'static>> {
        self.by_normal_path(method, path::normalise(path).as_deref())
    }

    /// Returns the number of the table that a method is looked for in: the methods of one decide alike.
    #[inline]
    pub(crate) fn table_of(&self, method: &Method) -> u64 {
        (0..)
            .zip(&self.by_method)
            .find_map(|(number, (of, _))| (of == method).then_some(number + 1))
            .unwrap_or(0)
    }

    /// For each pattern of a rule, by its number, the rule's counter, its weight, and whether it counts
    /// visitors.
    pub(crate) fn included(&self) -> impl Iterator<Item = (&str, NonZeroU32, bool)> {
        let rules = self.patterns.iter().map(|included| &self.rules[included.rule]);
        rules.map(|Resolved { counter, weight, visitors }| (&**counter, *weight, *visitors))
    }

    /// The counter of what nothing else matches.
    pub(crate) fn default_counter(&self) -> Option<&str> {
        self.default_counter.as_deref()
    }

    fn by_normal_path(&self, method: &Method, path: Result<&str, &Unusable>) -> Option<Match<'static>> {
        match path {
            Ok(path) => self.by_pattern(method, path),
            Err(Unusable::NotAPath) => None,
            Err(Unusable::TooLong(bytes)) => Some(Match::PathTooLong(*bytes)),
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

    /// Decides about a request that nothing matches by its path.
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
    /// Returns the number that stands for what was found by a path.
    pub(crate) fn number(found: Option<Self>) -> u64 {
        let (number, kind) = match found {
            Some(Self::Included(number)) => (number, 1),
            Some(Self::Excluded(number)) => (number, 2),
            Some(Self::PathTooLong(bytes)) => (bytes, 3),
            None | Some(Self::MatchedPath(_) | Self::DefaultCounter | Self::Unmatched) => (0, 0),
        };
        (number as u64) << 2 | kind
    }

    /// Returns what a number stands for.
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
