use super::expected::Expected;

/// The value of a condition in one bucket, and what it may be at most or at least.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) is_met: bool,
    pub(crate) value: f64,
    pub(crate) bound: f64,
    /// A text that belongs to the value: that of a label which is new, an error, or the name of a source.
    pub(crate) label: Option<String>,
    /// The expectation, where a rule is about one.
    pub(crate) expected: Option<Expected>,
}

impl Verdict {
    pub(crate) fn new(is_met: bool, value: f64, bound: f64) -> Self {
        Self { is_met, value, bound, label: None, expected: None }
    }
}
