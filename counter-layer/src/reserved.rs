//! Counter names reserved by the layer.

use counter_core::CounterName;

/// The counter of all requests.
pub const HITS: &str = "hits";

/// The counters of the status classes.
pub const STATUSES: [&str; 7] =
    ["status:1xx", "status:2xx", "status:3xx", "status:4xx", "status:5xx", "status:failed", "status:aborted"];

/// The counters of requests that the site failed to answer.
pub const ERRORS: [&str; 2] = ["status:5xx", "status:failed"];

pub(crate) const METHODS: [&str; 8] = [
    "method:GET",
    "method:HEAD",
    "method:POST",
    "method:PUT",
    "method:DELETE",
    "method:OPTIONS",
    "method:PATCH",
    "method:other",
];

/// The counters of humans and bots.
pub const AGENTS: [&str; 2] = ["agent:human", "agent:bot"];

/// Returns `true` for a name used by the layer, which must not be used for a page.
pub fn is_reserved(name: &str) -> bool {
    // Most names start with a slash, and reserved names never do.
    !name.starts_with('/')
        && ([HITS, CounterName::OTHER].contains(&name)
            || [CounterName::LABELS, CounterName::VIEWS].iter().any(|kind| name.starts_with(kind))
            || is_facet_counter(name))
}

/// Returns `true` for the counter of a facet or a gRPC status, i.e. for a breakdown of all requests.
pub fn is_facet_counter(name: &str) -> bool {
    let facets: [&[&str]; 3] = [&STATUSES, &METHODS, &AGENTS];
    name.starts_with("grpc:") || facets.iter().any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counters_of_the_layer_are_reserved() {
        for name in [
            "hits",
            "(other)",
            "grpc:not_found",
            "status:2xx",
            "status:aborted",
            "method:other",
            "agent:bot",
            "label:device:tv",
            "view:hits",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["/", "/hits", "Hits", "status:", "status:6xx", "method:get", "agent:", "other", ""] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
