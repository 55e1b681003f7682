//! The order of modules: ground floor first, and families side by side.

use super::tree::{Tree, Use, sample};

/// The families of counts, each a folder of the core.
const FAMILIES: [&str; 5] = ["visits", "unique", "window", "entity", "document"];

/// The modules that know all families: the stores, the guide, and what other packages of the workspace use.
const ABOVE: [&str; 3] = ["stores", "guide", "internal"];

/// The names that a family may take from another: whose, from whom, and which.
const SHARED: [(&str, &str, &str); 6] = [
    ("visits", "document", "change_document"),
    ("visits", "document", "Document"),
    ("visits", "document", "DocumentStore"),
    ("visits", "document", "MemoryDocuments"),
    ("visits", "document", "RedisDocuments"),
    ("visits", "document", "SqlDocuments"),
];

/// Returns whether a module uses one that its parent, or a common ancestor of both, declares after it.
fn goes_up(tree: &Tree, used: &Use) -> bool {
    let common = used.from.iter().zip(&used.to).take_while(|(from, to)| from == to).count();
    let (Some(from), Some(to)) = (used.from.get(common), used.to.get(common)) else {
        // The one lies inside of the other.
        return false;
    };
    let children = &tree.modules[&used.from[..common]].children;
    let place = |name| children.iter().position(|child| child == name);
    place(to) > place(from)
}

/// Whether a family, or what lies below all of them, names a family that is not its own.
fn crosses(used: &Use) -> bool {
    let (Some(from), Some(to)) = (used.from.first(), used.to.first()) else { return false };
    from != to && FAMILIES.contains(&&**to) && !ABOVE.contains(&&**from) && !is_listed(&SHARED, used)
}

/// Whether a name and the families that it goes between stand in a table.
fn is_listed(table: &[(&str, &str, &str)], used: &Use) -> bool {
    let Some(name) = used.name.as_deref() else { return false };
    table.contains(&(&used.from[0], &used.to[0], name))
}

#[test]
fn no_module_uses_one_that_comes_after_it() {
    for package in [
        "counter-core",
        "counter-core/alert",
        "counter-layer",
        "counter-layer/admin",
        "counter-layer/log",
        "example-app",
    ] {
        let tree = Tree::of(&format!("{package}/src/lib.rs"));
        let uses = tree.uses();
        assert!(tree.modules.len() >= 6 && uses.len() >= 20, "{package}: {uses:?}");
        let up: Vec<_> = uses.iter().filter(|used| goes_up(&tree, used)).map(told).collect();
        assert!(up.is_empty(), "{package}: {up:#?}");
    }
}

#[test]
fn families_do_not_name_each_other() {
    let tree = Tree::of("counter-core/src/lib.rs");
    let modules = &tree.modules[&Vec::new()].children;
    assert!(
        FAMILIES.iter().chain(&ABOVE).all(|name| modules.iter().any(|module| module == name)),
        "{modules:?}"
    );
    let crossing: Vec<_> = tree.uses().iter().filter(|used| crosses(used)).map(told).collect();
    assert!(crossing.is_empty(), "{crossing:#?}");
}

fn told(used: &Use) -> String {
    let name = used.name.as_deref().unwrap_or("all");
    format!("{}: {} uses {name} of {}", used.place, used.from.join("::"), used.to.join("::"))
}

#[test]
fn an_arrow_up_is_found_at_any_depth_and_through_re_exports() {
    let up = |source: &str| {
        let tree = sample(source);
        tree.uses().iter().filter(|used| goes_up(&tree, used)).count()
    };
    for source in [
        "mod a { use crate::b::B; } mod b {}",
        "pub use b::B; mod a { use crate::B; } mod b {}",
        "pub use b::c::B as D; mod x {} mod a { use crate::{x::X, D}; } mod b { mod c {} }",
        "mod f { mod a { use super::b::B; } mod b {} }",
        "mod f { pub(crate) use b::B; mod a { fn f() { super::B::new() } } mod b {} }",
        "mod f { mod a { fn f() { m!(super::b::B) } } mod b {} }",
        "mod f { mod a { mod deep { use super::super::b; } } mod b {} }",
        "mod a { macro_rules! m { () => { $crate::b::B }; } } mod b {}",
    ] {
        assert_eq!(up(source), 1, "{source}");
    }
    for source in [
        "mod a {} mod b { use crate::a::A; }",
        "mod f { pub use a::A; mod a {} mod b { use super::A; } }",
        "mod f { struct S; mod a { use super::S; } }",
        "mod a { #[cfg(test)] mod tests { use crate::b::B; } } mod b {}",
        "mod a { fn f() { g(\"crate::b\") } } mod b {}",
        "mod a { use other::b::B; } mod b {}",
        "mod a { mod b {} use b::B; } mod b {}",
    ] {
        assert_eq!(up(source), 0, "{source}");
    }
}

#[test]
fn a_family_that_names_another_is_found_whoever_re_exports_the_name() {
    let crossing = |source: &str| sample(source).uses().iter().filter(|used| crosses(used)).count();
    for source in [
        "mod visits {} mod window { use crate::visits::Sample; }",
        "pub use visits::Sample; mod visits {} mod window { mod redis { use crate::Sample; } }",
        "mod redis { use crate::window::Key; } mod window {}",
        "pub use document::{Other, DocumentStore}; mod document {} mod visits { use crate::{Other, DocumentStore}; }",
    ] {
        assert_eq!(crossing(source), 1, "{source}");
    }
    for source in [
        "mod visits {} mod window {} mod stores { use crate::{visits::Visits, window::Windows}; }",
        "mod time {} mod window { use crate::time::Timestamp; mod a { use super::b::B; } mod b {} }",
        "pub use document::DocumentStore; mod document {} mod visits { use crate::DocumentStore; }",
    ] {
        assert_eq!(crossing(source), 0, "{source}");
    }
}
