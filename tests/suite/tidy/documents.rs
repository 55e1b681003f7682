//! Documents that name tests or show code.

use std::collections::BTreeMap;

use super::files::{add_files, root, text};
use super::tree::Tree;

/// The published packages, by folder.
const PACKAGES: [&str; 6] = [
    "counter-core",
    "counter-core/alert",
    "counter-core/kafka",
    "counter-layer",
    "counter-layer/admin",
    "counter-layer/log",
];

#[test]
fn tests_named_by_documents_exist() {
    let documents = text("ARCHITECTURE.md") + &text("SECURITY.md") + &text("counter-core/docs/durability.md");
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

/// Returns the targets of the links in Markdown, except for addresses and anchors.
fn relative_links(markdown: &str) -> impl Iterator<Item = &str> {
    let targets = markdown.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

#[test]
fn links_between_documents_resolve() {
    let documents =
        ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    let mut documents = documents.map(str::to_owned).to_vec();
    for folder in ["counter-core", "counter-layer", "example-app"] {
        add_files(folder, "md", &mut documents);
    }
    let mut links = 0;
    for document in &documents {
        let markdown = text(document);
        let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in relative_links(&markdown) {
            links += 1;
            assert!(root().join(folder).join(target).exists(), "{document} links to {target}");
            // Registries show a README without the rest of the repository.
            let is_published = document.ends_with("/README.md") && PACKAGES.contains(&folder);
            assert!(!is_published || !target.contains(".."), "{document} links out of the package: {target}");
        }
    }
    assert!(links >= 30, "{links}");
}

#[test]
fn each_feature_is_in_the_table_of_the_crate_docs() {
    for package in PACKAGES {
        let (manifest, docs) =
            (text(&format!("{package}/Cargo.toml")), text(&format!("{package}/src/lib.rs")));
        let Some((_, features)) = manifest.split_once("[features]\n") else { continue };
        let features = features.lines().take_while(|line| !line.is_empty());
        let names = features.filter_map(|line| Some(line.split_once(" = ")?.0)).filter(|name| {
            // Not chosen by users.
            !name.starts_with(['#', '_']) && *name != "default"
        });
        let (_, section) = docs.split_once("//! # Features\n").expect("a section on features");
        let rows = section.lines().take_while(|line| line.starts_with("//!") && !line.starts_with("//! #"));
        let cells: Vec<_> = rows.filter_map(|row| row.split('|').nth(1)).collect();
        for name in names {
            let quoted = format!("`{name}`");
            assert!(cells.iter().any(|cell| cell.contains(&quoted)), "{name} of {package}");
        }
    }
}
