/// The value that a request has of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// The request has none.
    None,
    /// It has a text in its place that is none.
    Other,
    Text(&'a str),
}

impl<'a> Value<'a> {
    /// Returns the value as `LabelValues::note` takes it, to which no text in parentheses is a value.
    pub(super) const fn noted(self) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::Other => Some("()"),
            Self::Text(text) => Some(text),
        }
    }
}
