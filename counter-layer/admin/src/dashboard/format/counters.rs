//! Formats names of counters.

use counter_core::CounterName;
use percent_encoding::percent_decode_str;

use super::names;

/// The label with the paths of missing pages.
pub(crate) const MISSING_PAGES: &str = "not_found";

/// The label with paths of missing pages and the hosts that link to them.
pub(crate) const BROKEN_LINKS: &str = "broken_link";

/// Returns the name of a counter for headings and legends.
pub(crate) fn title(counter: &CounterName) -> String {
    match (counter.pair(), counter.label()) {
        (Some((label, page, value)), _) => format!("{page}, {}", labelled(label, value)),
        (None, Some((label, value))) => labelled(label, value),
        (None, None) => counter.to_string(),
    }
}

fn labelled(label: &str, value: &str) -> String {
    match (label, path_and_host(value)) {
        (MISSING_PAGES, (path, _)) => format!("missing page: {path}"),
        (BROKEN_LINKS, (path, Some(host))) => format!("broken link: {path} from {host}"),
        _ => format!("{label}: {}", names::readable(label, value)),
    }
}

/// Returns the path in a value with escapes decoded, and the host that links to it.
pub(crate) fn path_and_host(value: &str) -> (String, Option<&str>) {
    let (path, host) = value.split_once(' ').map_or((value, None), |(path, host)| (path, Some(host)));
    (percent_decode_str(path).decode_utf8_lossy().replace(char::is_control, "\u{fffd}"), host)
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
            ("label:country:JP", "country: Japan"),
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
    }
}
