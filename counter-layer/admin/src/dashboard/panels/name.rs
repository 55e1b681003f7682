use crate::text::escape;

/// A name without direction controls, elided in the middle if it is too long for a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) whole: String,
    /// The part that is elided at its end, and the part that is always shown.
    pub(crate) parts: (String, String),
}

impl Name {
    /// The number of characters that are always shown at the end.
    const TAIL: usize = 12;

    pub(crate) fn new(name: &str) -> Self {
        let name = escape::without_controls(name);
        let count = name.chars().count();
        let start = name.char_indices().nth(count.saturating_sub(Self::TAIL)).map_or(0, |(start, _)| start);
        let (head, tail) = name.split_at(if count > 2 * Self::TAIL { start } else { name.len() });
        let parts = (head.to_owned(), tail.to_owned());
        Self { whole: name, parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_elided_before_their_end() {
        for (name, head, tail) in [
            ("/a", "/a", ""),
            ("/articles/{id}/comments", "/articles/{id}/comments", ""),
            ("/articles/{id}/comments/latest", "/articles/{id}/com", "ments/latest"),
            ("äöüäöüäöüäöüäöüäöüäöüäöüäöü", "äöüäöüäöüäöüäöü", "äöüäöüäöüäöü"),
        ] {
            let parts = Name::new(name).parts;
            assert_eq!((parts.0.as_str(), parts.1.as_str()), (head, tail));
        }
    }
}
