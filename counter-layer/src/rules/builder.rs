use counter_core::CounterName;
use http::Method;

use super::error::RulesError;
use super::rule::Rule;
use super::{Included, Resolved, Rules};
use crate::reserved::is_reserved;
use crate::rules::pattern::Pattern;
use crate::rules::table::Table;

/// Builder for [`Rules`]. The order of the calls does not matter.
///
/// With the `serde` feature, you can read this from configuration, see the `Deserialize` implementation.
///
/// ```
/// use counter_layer::{Rule, Rules};
/// use http::Method;
///
/// let rules = Rules::builder()
///     .rule(Rule::counter("articles").pattern("/articles/{id}"))
///     .exclude("/articles/preview")
///     .default_counter("other pages")
///     .build()?;
/// let explained = |path| rules.explain(&Method::GET, path, None).to_string();
/// assert!(explained("/articles/7").contains("articles"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RulesBuilder {
    pub(super) exclude: Vec<String>,
    pub(super) exclude_prefetch: bool,
    pub(super) rules: Vec<Rule>,
    pub(super) by_matched_path: bool,
    pub(super) default_counter: Option<String>,
}

impl RulesBuilder {
    /// Adds a rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Excludes requests that match the pattern, for all methods. Exclusions take precedence over rules.
    pub fn exclude(mut self, pattern: impl Into<String>) -> Self {
        self.exclude.push(pattern.into());
        self
    }

    /// Excludes browser prefetches: requests with `Sec-Purpose: prefetch`, optionally with `prerender`, or
    /// with the older `Purpose`, `X-Purpose` or `X-Moz` set to `prefetch` or `preview`. These are counted as
    /// `ignored.prefetch` in the ledger.
    ///
    /// Prefetched pages are rarely viewed. If a page is viewed later, the browser usually loads it from the
    /// cache without a request, so this visit will not be counted either.
    pub const fn exclude_prefetch(mut self) -> Self {
        self.exclude_prefetch = true;
        self
    }

    /// Counts requests that don't match a rule by the template of the server's router, if any, and
    /// [gRPC](crate::guide::rules#grpc) calls by method.
    pub const fn by_matched_path(mut self) -> Self {
        self.by_matched_path = true;
        self
    }

    /// Sets the counter for requests with no other match, like the default servlet in the servlet
    /// specification.
    pub fn default_counter(mut self, counter: impl Into<String>) -> Self {
        self.default_counter = Some(counter.into());
        self
    }

    /// Builds the rules.
    ///
    /// # Errors
    /// Returns an error if a pattern can never match, if two patterns of equal rank match the same requests,
    /// or if a counter name is invalid or reserved by the layer (`hits`, `(other)`, the
    /// [facet](crate::Facet) names, and names that start with `label:` or `view:`). For conflicts, the error contains both patterns and both counters.
    pub fn build(self) -> Result<Rules, RulesError> {
        let Self { exclude, exclude_prefetch, rules: given, by_matched_path, default_counter } = self;
        let mut excluded = Table::default();
        let mut exclusions: Vec<Pattern> = Vec::new();
        for text in exclude {
            let pattern = parse(text)?;
            if let Err(other) = excluded.insert(&pattern, exclusions.len()) {
                let one = exclusions.get(other).unwrap_or(&pattern).text.clone();
                return Err(RulesError::DuplicateExclude { patterns: [one, pattern.text] });
            }
            exclusions.push(pattern);
        }

        let mut patterns = Vec::new();
        for (number, rule) in given.iter().enumerate() {
            check(rule)?;
            for text in &rule.patterns {
                patterns.push(Included { pattern: parse(text.clone())?, rule: number });
            }
        }
        if let Some(counter) = &default_counter {
            check_counter(counter)?;
        }

        let table = |method: Option<&Method>| table(&given, &patterns, method);
        let mut methods: Vec<_> = given.iter().flat_map(|rule| &rule.methods).cloned().collect();
        if methods.contains(&Method::GET) {
            methods.push(Method::HEAD);
        }
        let mut by_method = Vec::new();
        for method in methods {
            if !by_method.iter().any(|(known, _)| *known == method) {
                let table = table(Some(&method))?;
                by_method.push((method, table));
            }
        }
        let other_methods = table(None)?;

        let resolve = |Rule { counter, weight, visitors, .. }| Resolved { counter, weight, visitors };
        let rules = given.into_iter().map(resolve).collect();
        Ok(Rules {
            exclusions,
            excluded,
            rules,
            patterns,
            by_method,
            other_methods,
            by_matched_path,
            default_counter,
            exclude_prefetch,
        })
    }
}

/// Creates the pattern table for a method, or for all methods not listed in the rules if `None`.
fn table(rules: &[Rule], patterns: &[Included], method: Option<&Method>) -> Result<Table, RulesError> {
    let named = |rule: &Rule| rule.methods.is_empty() || method.is_some_and(|method| rule.names(method));
    // HEAD is like GET, so it should count the same way if there is no rule for HEAD.
    let inherited = |rule: &Rule| method == Some(&Method::HEAD) && !named(rule) && rule.names(&Method::GET);
    let mut table = Table::default();
    for (number, Included { pattern, rule }) in patterns.iter().enumerate() {
        if named(&rules[*rule]) {
            table.insert(pattern, number).map_err(|other| conflict(rules, patterns, other, number))?;
        }
    }
    for (number, Included { pattern, rule }) in patterns.iter().enumerate() {
        if inherited(&rules[*rule]) && table.existing(pattern).is_none() {
            table.insert(pattern, number).map_err(|other| conflict(rules, patterns, other, number))?;
        }
    }
    Ok(table)
}

fn conflict(rules: &[Rule], patterns: &[Included], one: usize, other: usize) -> RulesError {
    let pair = [&patterns[one.min(other)], &patterns[one.max(other)]];
    let patterns = pair.map(|included| included.pattern.text.clone());
    let counters = pair.map(|included| rules[included.rule].counter.clone());
    if pair[0].rule == pair[1].rule {
        let [counter, _] = counters;
        return RulesError::DuplicatePattern { patterns, counter };
    }
    RulesError::Conflict { patterns, counters }
}

fn parse(text: String) -> Result<Pattern, RulesError> {
    Pattern::parse(text).map_err(|(pattern, reason)| RulesError::Pattern { pattern, reason })
}

fn check(rule: &Rule) -> Result<(), RulesError> {
    check_counter(&rule.counter)?;
    let counter = || rule.counter.clone();
    if rule.patterns.is_empty() {
        return Err(RulesError::NoPattern { counter: counter() });
    }
    match rule.methods.iter().find(|method| method.as_str().contains(|c: char| c.is_ascii_lowercase())) {
        Some(method) => Err(RulesError::Method { counter: counter(), method: method.clone() }),
        None => Ok(()),
    }
}

fn check_counter(counter: &str) -> Result<(), RulesError> {
    match CounterName::new(counter) {
        Ok(_) if is_reserved(counter) => Err(RulesError::Reserved { counter: counter.to_owned() }),
        Ok(_) => Ok(()),
        Err(reason) => Err(RulesError::Counter { counter: counter.to_owned(), reason }),
    }
}
