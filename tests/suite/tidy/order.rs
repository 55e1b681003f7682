//! The order of modules: bottom-up, and families that do not depend on each other.

use super::tree::{Tree, Use, sample};

/// Families of counters. Each is a folder of the core.
const FAMILIES: [&str; 5] = ["visits", "unique", "window", "entity", "document"];

/// Modules that may use all families: the stores, the guide, and the parts used by other packages of the workspace.
const ABOVE: [&str; 4] = ["stores", "guide", "unstable", "internal"];

/// Items that a family may use from another: user, owner and name.
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
        // One module contains the other.
        return false;
    };
    let children = &tree.modules[&used.from[..common]].children;
    let position = |name| children.iter().position(|child| child == name);
    position(to) > position(from)
}

/// Returns whether a family, or a module below all families, uses another family.
fn crosses(used: &Use) -> bool {
    let (Some(from), Some(to)) = (used.from.first(), used.to.first()) else { return false };
    from != to && FAMILIES.contains(&&**to) && !ABOVE.contains(&&**from) && !is_listed(&SHARED, used)
}

/// Returns whether a table lists this item with its user and owner.
fn is_listed(table: &[(&str, &str, &str)], used: &Use) -> bool {
    let Some(name) = used.name.as_deref() else { return false };
    table.contains(&(&used.from[0], &used.to[0], name))
}

#[test]
fn modules_use_only_modules_declared_before_them() {
    for package in [
        "counter-core",
        "counter-core/alert",
        "counter-core/kafka",
        "counter-layer",
        "counter-layer/admin",
        "counter-layer/log",
        "example-app",
    ] {
        let tree = Tree::of(&format!("{package}/src/lib.rs"));
        let uses = tree.uses();
        assert!(tree.modules.len() >= 6 && uses.len() >= 20, "{package}: {uses:?}");
        let up: Vec<_> = uses.iter().filter(|used| goes_up(&tree, used)).map(describe).collect();
        assert!(up.is_empty(), "{package}: {up:#?}");
    }
}

#[test]
fn families_do_not_use_each_other() {
    let tree = Tree::of("counter-core/src/lib.rs");
    let modules = &tree.modules[&Vec::new()].children;
    assert!(
        FAMILIES.iter().chain(&ABOVE).all(|name| modules.iter().any(|module| module == name)),
        "{modules:?}"
    );
    let crossing: Vec<_> = tree.uses().iter().filter(|used| crosses(used)).map(describe).collect();
    assert!(crossing.is_empty(), "{crossing:#?}");
}

fn describe(used: &Use) -> String {
    let name = used.name.as_deref().unwrap_or("all");
    format!("{}: {} uses {name} of {}", used.location, used.from.join("::"), used.to.join("::"))
}

#[test]
fn an_upward_import_is_found_at_any_depth_and_through_re_exports() {
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
fn a_family_that_uses_another_is_found_through_re_exports() {
    let crossing = |source: &str| sample(source).uses().iter().filter(|used| crosses(used)).count();
    for source in [
        "mod visits {} mod window { use crate::visits::Sample; }",
        "pub use visits::Sample; mod visits {} mod window { mod redis { use crate::Sample; } }",
        "mod redis { use crate::window::Key; } mod window {}",
        "pub use document::{Page, DocumentStore}; mod document {} mod visits { use crate::{Page, DocumentStore}; }",
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
