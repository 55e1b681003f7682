use std::num::NonZeroU32;

use http::Method;

/// A counter with its patterns, for a [`RulesBuilder`](crate::RulesBuilder).
///
/// See [`Rules`](crate::Rules) for the pattern syntax.
///
/// ```
/// use std::num::NonZeroU32;
///
/// use counter_layer::{Rule, Rules};
/// use http::Method;
///
/// let votes = Rule::counter("votes")
///     .pattern("/polls/{id}/vote")
///     .pattern("/api/polls/{id}/vote")
///     .method(Method::POST)
///     .weight(NonZeroU32::MIN);
/// let rules = Rules::builder().rule(votes).build()?;
/// let explained = rules.explain(&Method::POST, "/polls/3/vote", None).to_string();
/// assert!(explained.contains("votes"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Rule {
    pub(super) counter: String,
    pub(super) patterns: Vec<String>,
    pub(super) methods: Vec<Method>,
    pub(super) weight: NonZeroU32,
    pub(super) visitors: bool,
}

impl Rule {
    /// Creates a rule for this counter name. You need to add a pattern.
    pub fn counter(name: impl Into<String>) -> Self {
        Self {
            counter: name.into(),
            patterns: Vec::new(),
            methods: Vec::new(),
            weight: NonZeroU32::MIN,
            visitors: true,
        }
    }

    /// Adds a pattern. The rule matches requests that match any of the patterns.
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(pattern.into());
        self
    }

    /// Adds a method. By default all methods match. `GET` includes `HEAD`, but a rule with `HEAD` for the
    /// same pattern takes precedence.
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Sets how often a request counts. Default: 1.
    ///
    /// The weight applies to all counters of the request, i.e. the rule counter, `hits`, and the
    /// [facets](crate::Facet), so that shares stay correct and a facet adds up to `hits`. In the ledger, hits
    /// are weighted, but requests are not.
    pub const fn weight(mut self, weight: NonZeroU32) -> Self {
        self.weight = weight;
        self
    }

    /// Disables visitors for these requests, in `hits` too.
    pub const fn without_visitors(mut self) -> Self {
        self.visitors = false;
        self
    }

    /// Returns `true` if this method was added to the rule.
    pub(super) fn names(&self, method: &Method) -> bool {
        self.methods.contains(method)
    }
}
