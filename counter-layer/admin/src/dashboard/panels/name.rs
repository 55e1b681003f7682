use counter_core::CounterName;
use counter_layer::internal::HITS;

use super::missing;
use crate::text::escape;

/// Returns the name of a counter for headings and legends.
pub(crate) fn title(counter: &CounterName) -> String {
    match (counter.pair(), counter.label()) {
        (Some((label, page, value)), _) => format!("{page}, {}", labelled(label, value)),
        (None, Some((label, value))) => labelled(label, value),
        (None, None) => counter.to_string(),
    }
}

/// Returns the name of the visitors of a counter.
pub(crate) fn visitors(counter: &CounterName) -> String {
    if **counter == *HITS { "visitors".to_owned() } else { format!("visitors of {}", title(counter)) }
}

fn labelled(label: &str, value: &str) -> String {
    match (label, missing::path_and_host(value)) {
        (missing::PAGES, (path, _)) => format!("missing page: {path}"),
        (missing::LINKS, (path, Some(host))) => format!("broken link: {path} from {host}"),
        _ => format!("{label}: {value}"),
    }
}

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
    fn labels_have_readable_names() {
        for (name, expected) in [
            ("hits", "hits"),
            ("/articles", "/articles"),
            ("label:referrer:search.example", "referrer: search.example"),
            ("label:not_found:/old%20page", "missing page: /old page"),
            (
                "label:broken_link:/articles/17 search.example",
                "broken link: /articles/17 from search.example",
            ),
        ] {
            assert_eq!(title(&CounterName::new(name).expect("a name")), expected);
        }
        let pair = CounterName::of_pair("referrer", "/articles", "search.example").expect("a pair");
        assert_eq!(title(&pair), "/articles, referrer: search.example");
        assert_eq!(visitors(&CounterName::new("hits").expect("a name")), "visitors");
        assert_eq!(visitors(&CounterName::new("/").expect("a name")), "visitors of /");
    }

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
