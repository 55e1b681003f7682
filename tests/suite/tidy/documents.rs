//! Documents that name tests or show code.

use std::collections::BTreeMap;

use super::files::text;
use super::tree::Tree;

#[test]
fn tests_named_by_documents_exist() {
    let documents = text("ARCHITECTURE.md") + &text("counter-core/docs/durability.md");
    let named: Vec<_> = documents.split('`').filter_map(|name| name.rsplit_once("::")).collect();
    // A capital letter starts a type, so this is a method.
    let is_test = |module: &str, fact: &str| !module.contains(char::is_uppercase) && fact.contains('_');
    let named: Vec<_> = named.into_iter().filter(|(module, fact)| is_test(module, fact)).collect();
    assert!(named.len() >= 10, "{named:?}");
    let texts = |root: &str| -> BTreeMap<_, _> {
        let modules = Tree::of(root).modules.into_iter();
        modules.map(|(path, module)| (path.join("::"), text(&module.file))).collect()
    };
    let mut texts_of_all = texts("counter-core/src/lib.rs");
    texts_of_all.extend(texts("tests/suite/main.rs"));
    for (module, fact) in named {
        let exists = texts_of_all.get(module).is_some_and(|text| text.contains(&format!("fn {fact}(")));
        assert!(exists, "{module}::{fact}");
    }
}

#[test]
fn the_readme_shows_lines_of_the_axum_example() {
    let (example, readme) = (text("counter-layer/admin/examples/axum.rs"), text("README.md"));
    let (_, code) = readme.split_once("```rust\n").expect("code");
    let (shown, _) = code.split_once("```").expect("the end of the code");
    assert!(shown.lines().count() >= 10 && example.contains(shown), "{shown}");
}
