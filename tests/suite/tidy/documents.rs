//! Documents that name code: it is there.

use std::collections::BTreeMap;

use super::tree::{Tree, text};

#[test]
fn every_test_that_the_architecture_and_the_readme_name_is_there() {
    let documents = text("ARCHITECTURE.md") + &text("README.md");
    let named: Vec<_> = documents.split('`').filter_map(|name| name.rsplit_once("::")).collect();
    // What begins with a capital is a method.
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
        let there = texts_of_all.get(module).is_some_and(|text| text.contains(&format!("fn {fact}(")));
        assert!(there, "{module}::{fact}");
    }
}

#[test]
fn the_service_that_the_readme_shows_is_one_that_is_built() {
    let example = text("example-app/examples/minimal.rs");
    let shown = &example[example.find("use ").expect("its first line after the documentation")..];
    let readme = text("README.md");
    assert!(readme.contains(&format!("```rust\n{shown}```\n")), "{shown}");
}
