use std::num::NonZeroU32;

use http::Method;

/// A counter and the patterns that feed it, for a [`RulesBuilder`](crate::RulesBuilder).
///
/// See [`Rules`](crate::Rules) for what a pattern is.
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
    /// Creates a rule for the counter of this name, as yet without a pattern.
    pub fn counter(name: impl Into<String>) -> Self {
        Self {
            counter: name.into(),
            patterns: Vec::new(),
            methods: Vec::new(),
            weight: NonZeroU32::MIN,
            visitors: true,
        }
    }

    /// Adds a pattern; a request that matches any of them matches the rule.
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(pattern.into());
        self
    }

    /// Adds a method; without any, all methods match. `GET` takes `HEAD` with it, unless a rule names
    /// `HEAD` for the same pattern.
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Sets as how many requests each one counts. Default: 1.
    ///
    /// The weight holds for all counters of the request: that of the rule, `hits`, and those of the
    /// [facets](crate::Facet), so that shares stay shares and each facet adds up to `hits`. In the ledger it weighs
    /// among the hits, and is one of the requests.
    pub const fn weight(mut self, weight: NonZeroU32) -> Self {
        self.weight = weight;
        self
    }

    /// Counts requests without their visitors, also under `hits`.
    pub const fn without_visitors(mut self) -> Self {
        self.visitors = false;
        self
    }

    /// Returns `true` if the rule names that method.
    pub(super) fn names(&self, method: &Method) -> bool {
        self.methods.contains(method)
    }
}
