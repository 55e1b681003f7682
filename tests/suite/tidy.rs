//! The house rules that no compiler keeps: who may know whom, and that what the documents name exists.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The source files under a folder, by path, without their comments and tests.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the workspace") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a text");
                let code = text.split("\n#[cfg(test)]\n").next().expect("the part before the tests");
                let code: String = code
                    .lines()
                    .filter(|line| !line.trim().starts_with("//"))
                    .fold(String::new(), |code, line| code + line + "\n");
                let name = path.strip_prefix(root()).expect("under the root").to_str().expect("UTF-8");
                found.insert(name.to_owned(), code);
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[track_caller]
fn only_in(word: &str, folder: &str, allowed: &[&str]) {
    for (file, code) in sources(folder) {
        let at_home = allowed.iter().any(|home| file.starts_with(home));
        // The name of a feature is no use of it.
        let code = code.replace(&format!("feature = \"{word}\""), "");
        assert!(at_home || !words(&code).any(|w| w == word), "{word} in {file}");
    }
}

#[test]
fn fred_stays_in_the_redis_store_and_http_in_the_layer_and_axum_behind_two_doors() {
    let homes =
        ["redis", "visits/redis", "unique/redis", "window/redis", "entity/redis", "stores/redis", "lib.rs"];
    let homes = homes.map(|home| format!("counter-core/src/{home}"));
    only_in("fred", "counter-core/src", &homes.each_ref().map(String::as_str));
    only_in("http", "counter-core/src", &[]);
    only_in("axum", "counter-core/src", &[]);
    only_in("fred", "counter-layer/src", &[]);
    only_in("axum", "counter-layer/src", &["counter-layer/src/admin", "counter-layer/src/request.rs"]);
}

#[test]
fn nothing_spawns_and_nothing_is_global() {
    for folder in ["counter-core/src", "counter-layer/src"] {
        for word in ["spawn", "static", "thread_local", "LazyLock", "println", "eprintln"] {
            for (file, code) in sources(folder) {
                let code = code.replace("'static", "");
                assert!(!words(&code).any(|w| w == word), "{word} in {file}");
            }
        }
    }
}

#[test]
fn no_module_uses_one_that_comes_after_it() {
    for package in ["counter-core", "counter-layer"] {
        let folder = format!("{package}/src");
        let lib = fs::read_to_string(root().join(&folder).join("lib.rs")).expect("a text");
        let place: BTreeMap<_, _> = lib
            .lines()
            .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
            .zip(0..)
            .collect();
        let homes: BTreeMap<_, _> = lib
            .split("pub use ")
            .skip(1)
            .filter_map(|item| item.split_once(';')?.0.split_once("::"))
            .flat_map(|(module, names)| words(names).map(move |name| (name, module)))
            .collect();
        assert!(place.len() >= 6 && homes.len() >= 3, "{package}: {place:?} {homes:?}");
        for (file, code) in sources(&folder) {
            let inside = file.strip_prefix(&format!("{folder}/")).expect("under the folder");
            let own = words(inside).next().expect("a name");
            let Some(own_place) = place.get(own) else { continue };
            for used in code.split("crate::").skip(1) {
                let path = used.split([';', '(']).next().expect("a path");
                let names: Vec<_> =
                    if path.starts_with('{') { words(path).collect() } else { words(path).take(1).collect() };
                for name in names {
                    let module = homes.get(name).copied().unwrap_or(name);
                    let later = place.get(module).is_some_and(|place| place > own_place);
                    assert!(!later, "{file} uses {name} of {module}, which comes after {own}");
                }
            }
        }
    }
}

#[test]
fn every_test_that_the_architecture_names_is_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("a text");
    let suite = sources("tests/suite").into_values().collect::<String>()
        + &fs::read_to_string(root().join("counter-core/src/visits/pending.rs")).expect("a text");
    let named: Vec<_> = text.split('`').filter_map(|name| name.split_once("::")).collect();
    // What begins with a capital is a method.
    let is_test = |module: &str, fact: &str| !module.starts_with(char::is_uppercase) && fact.contains('_');
    let named: Vec<_> = named.into_iter().filter(|(module, fact)| is_test(module, fact)).collect();
    assert!(named.len() >= 10, "{named:?}");
    for (module, fact) in named {
        assert!(suite.contains(&format!("fn {fact}(")), "{module}::{fact}");
    }
}

#[test]
fn the_service_that_the_readme_shows_is_one_that_is_built() {
    let example = fs::read_to_string(root().join("example-app/examples/minimal.rs")).expect("a text");
    let (_, shown) = example.split_once("// <README>\n").expect("a mark");
    let (shown, _) = shown.split_once("    // </README>").expect("a mark");
    let shown = shown.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
    let shown = shown.fold(String::new(), |shown, line| shown + line + "\n");
    let readme = fs::read_to_string(root().join("README.md")).expect("a text");
    assert!(readme.contains(&format!("```rust\n{shown}```\n")), "{shown}");
}
