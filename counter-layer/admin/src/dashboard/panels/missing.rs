//! Panels of missing pages and broken links.

use super::name::Name;
use super::panel::PanelRow;
use crate::dashboard::format::counters::path_and_host;
use crate::dashboard::format::numbers::Change;
use crate::text::digits;

/// The maximum number of hosts to show for a missing page.
const MAX_HOSTS: usize = 3;

/// Returns the hosts that link to a missing page, most hits first, given the values of broken links.
pub(super) fn linking_hosts(path: &str, links: &[(String, u64)]) -> Option<String> {
    let host = |(value, _): &&(String, u64)| value.split_once(' ').is_some_and(|(of, _)| of == path);
    let hosts: Vec<_> = links
        .iter()
        .filter(host)
        .take(MAX_HOSTS)
        .filter_map(|(value, hits)| Some(format!("{} {}", value.split_once(' ')?.1, digits::grouped(*hits))))
        .collect();
    (!hosts.is_empty()).then(|| format!("from {}", hosts.join(", ")))
}

/// Shows the path in a value with escapes decoded, and the host that links to it.
pub(super) fn describe(row: &mut PanelRow) {
    let value = std::mem::take(&mut row.name.whole);
    let (path, host) = path_and_host(&value);
    row.description = row.description.take().or_else(|| host.map(|host| format!("from {host}")));
    row.name = Name::new(&path);
    // More missing pages are not an improvement.
    row.change = row.change.take().map(|change| Change { style: "flat", ..change });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::panels::panel::Role;

    #[test]
    fn paths_are_decoded_and_followed_by_the_host() {
        for (value, path, host) in [
            ("/old%20page", "/old page", None),
            ("/caf%C3%A9 news.example", "/café", Some("from news.example")),
            ("/%FF%0A", "/\u{fffd}\u{fffd}", None),
        ] {
            let change = Some(Change { text: "+5 %".to_owned(), style: "up" });
            let [address, count, percent] = [(); 3].map(|()| String::new());
            let mut row = PanelRow {
                name: Name::new(value),
                description: None,
                address,
                value: count,
                share: None,
                change,
                percent,
                role: Role::Value,
            };
            describe(&mut row);
            assert_eq!((&*row.name.whole, row.description.as_deref()), (path, host));
            assert_eq!(row.change.map(|change| change.style), Some("flat"));
        }
    }
}
