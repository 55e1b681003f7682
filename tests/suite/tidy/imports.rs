//! Imports within a package, which should name the module that defines the item or the folder that contains it.

use super::tree::{Tree, Use, sample};

/// Roots of all packages with more than one module.
const ROOTS: [&str; 8] = [
    "counter-core/src/lib.rs",
    "counter-core/alert/src/lib.rs",
    "counter-core/kafka/src/lib.rs",
    "counter-layer/src/lib.rs",
    "counter-layer/admin/src/lib.rs",
    "counter-layer/log/src/lib.rs",
    "example-app/src/lib.rs",
    "example-app/src/main.rs",
];

/// Returns whether a path goes through an import of an enclosing module, e.g. a re-export at the crate root, or through
/// a folder that re-exports an item from outside.
///
/// A folder may re-export items that it contains: this is how it presents them to other folders.
fn is_detour(used: &Use) -> bool {
    let Some(through) = &used.through else { return false };
    let is_enclosing = used.from.len() > through.len() && used.from.starts_with(through);
    is_enclosing || used.from != *through && !used.to.starts_with(through)
}

fn detours(tree: &Tree) -> Vec<String> {
    let describe = |used: &Use| {
        let (name, to) = (used.name.as_deref().unwrap_or("a module"), used.to.join("::"));
        format!("{}: {name} is defined in {to}", used.location)
    };
    tree.uses().iter().filter(|used| is_detour(used)).map(describe).collect()
}

#[test]
fn imports_name_the_module_or_the_folder_that_defines_the_item() {
    let all: Vec<_> = ROOTS.iter().flat_map(|root| detours(&Tree::of(root))).collect();
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn an_import_through_an_enclosing_re_export_is_found() {
    for source in [
        "pub use a::A; mod a {} mod b { use crate::A; }",
        "pub use a::A; mod a {} mod b { mod deep { use super::super::A; } }",
        "mod f { pub use a::A; mod a {} mod b { use super::A; } }",
        "mod f { pub use a::A; mod a {} mod b { use crate::f::A; } }",
        "mod f { pub use a::A; mod a {} mod b { fn f() { super::A::new() } } }",
        "mod a {} mod f { pub use crate::a::A; } mod b { use crate::f::A; }",
    ] {
        assert_eq!(detours(&sample(source)).len(), 1, "{source}");
    }
    for source in [
        "mod f { pub use a::A; mod a {} } mod b { use crate::f::A; }",
        "mod f { mod a {} mod b { use super::a::A; } }",
        "mod f { struct A; mod b { use super::A; use crate::f::A as B; } }",
        "struct A; mod b { use crate::A; }",
        "mod a {} mod b { use crate::a::A; fn f() { self::A::new() } }",
        "pub use a::A; mod a {} mod b { macro_rules! m { () => { $crate::A }; } }",
        "pub use a::A; mod a {} mod b { #[cfg(test)] mod tests { use crate::A; } }",
    ] {
        assert!(detours(&sample(source)).is_empty(), "{source}");
    }
}
