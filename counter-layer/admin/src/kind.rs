use counter_core::CounterName;

use counter_layer::internal::{is_of_a_facet, is_reserved};

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
            Self::Facet => is_of_a_facet(name),
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_a_page_unless_its_name_is_fixed() {
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
