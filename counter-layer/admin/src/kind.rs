use counter_core::CounterName;

use counter_layer::internal::{is_facet_counter, is_reserved};

/// Kinds of counters, derived from the counter name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Counters named by rules and routes.
    Page,
    /// Facet counters and gRPC status counters. Each group splits all requests into parts.
    Facet,
    /// All counters, including `hits` and `(other)`.
    All,
}

impl Kind {
    /// Returns `true` if a counter is of this kind.
    pub(crate) fn has(self, name: &CounterName) -> bool {
        match self {
            Self::Page => !is_reserved(name),
            Self::Facet => is_facet_counter(name),
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_without_a_reserved_name_are_pages() {
        for (name, is_page, is_facet) in [
            ("hits", false, false),
            ("(other)", false, false),
            ("status:2xx", false, true),
            ("agent:bot", false, true),
            ("method:GET", false, true),
            ("grpc:OK", false, true),
            ("/", true, false),
            ("status:", true, false),
            ("label:referrer:example.com", false, false),
        ] {
            let name = CounterName::new(name).expect("a name");
            assert_eq!((Kind::Page.has(&name), Kind::Facet.has(&name)), (is_page, is_facet), "{name}");
            assert!(Kind::All.has(&name));
        }
    }
}
