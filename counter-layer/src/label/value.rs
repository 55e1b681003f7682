/// The value of a label in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// The value is missing.
    None,
    /// The value is invalid.
    Other,
    Text(&'a str),
}

impl<'a> Value<'a> {
    /// Returns the value in a text from a closure.
    pub(super) fn of(text: &'a str) -> Self {
        match text.trim() {
            "" => Self::None,
            text => Self::Text(text),
        }
    }

    /// Returns the value to pass to `LabelValues::note`, which treats text in parentheses as invalid.
    pub(super) const fn observed(self) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::Other => Some("()"),
            Self::Text(text) => Some(text),
        }
    }
}
