//! Identifiers that belong to one module, or that no library may use.

use proc_macro2::TokenTree;

use super::tree::{Tree, sample};

/// Returns all identifiers of the code with file and line. Comments, strings, lifetimes and tests are skipped.
fn words(tree: &Tree) -> Vec<(String, String, usize)> {
    fn walk(tokens: &[TokenTree], file: &str, words: &mut Vec<(String, String, usize)>) {
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    walk(&group.stream().into_iter().collect::<Vec<_>>(), file, words);
                }
                TokenTree::Ident(word) => {
                    let before = index.checked_sub(1).map(|before| &tokens[before]);
                    let lifetime = matches!(before, Some(TokenTree::Punct(mark)) if mark.as_char() == '\'');
                    if !lifetime {
                        words.push((word.to_string(), file.to_owned(), word.span().start().line));
                    }
                }
                _ => {}
            }
        }
    }
    let mut words = Vec::new();
    for module in tree.modules.values() {
        walk(&module.tokens(), &module.file, &mut words);
    }
    words
}

#[track_caller]
fn only_in(word: &str, tree: &Tree, is_allowed: impl Fn(&str) -> bool) {
    for (found, file, line) in words(tree) {
        assert!(found != word || is_allowed(&file), "{word} in {file}:{line}");
    }
}

#[test]
fn fred_http_and_axum_stay_in_their_modules() {
    let (core, layer) = (Tree::of("counter-core/src/lib.rs"), Tree::of("counter-layer/src/lib.rs"));
    // Code that talks to a server is in files and folders named `redis`; `unstable` re-exports the client.
    only_in("fred", &core, |file| {
        file.split(['/', '.']).any(|part| part == "redis") || file == "counter-core/src/unstable.rs"
    });
    only_in("http", &core, |_| false);
    only_in("axum", &core, |_| false);
    only_in("fred", &layer, |_| false);
    only_in("axum", &layer, |file| file == "counter-layer/src/request.rs");
    only_in("fred", &Tree::of("counter-layer/admin/src/lib.rs"), |_| false);
    let alert = Tree::of("counter-core/alert/src/lib.rs");
    only_in("http", &alert, |file| file.starts_with("counter-core/alert/src/webhook"));
    only_in("axum", &Tree::of("counter-layer/log/src/lib.rs"), |_| false);
}

/// Returns whether an identifier spawns, is global to the process, or prints.
fn is_forbidden(word: &str) -> bool {
    let globals = ["static", "thread_local", "LazyLock", "LazyCell", "lazy_static"];
    let prints = ["print", "println", "eprint", "eprintln", "dbg"];
    word.starts_with("spawn") || globals.contains(&word) || prints.contains(&word)
}

#[test]
fn no_library_spawns_prints_or_has_global_state() {
    // The documented exceptions: `Counters::spawn`, and the per-thread stripes of a tally, which are released with the
    // tally and need to know when a thread ends.
    let is_exception = |word: &str, file: &str| {
        [
            ("spawn", "counter-core/src/visits/counters/upkeep.rs"),
            // The connection of a Redis store, as documented by `connect`, and the DNS lookup.
            ("spawn", "counter-core/src/redis/connection/dialer.rs"),
            ("spawn", "counter-core/src/redis/connection/address.rs"),
            ("thread_local", "counter-core/src/visits/tally/stripes.rs"),
            ("static", "counter-core/src/visits/tally/stripes.rs"),
            // An empty box for the next request on a thread, which replaces a lock.
            ("thread_local", "counter-layer/src/layer/extra.rs"),
            ("static", "counter-layer/src/layer/extra.rs"),
        ]
        .contains(&(word, file))
    };
    for root in [
        "counter-core/src/lib.rs",
        "counter-core/alert/src/lib.rs",
        "counter-layer/src/lib.rs",
        "counter-layer/admin/src/lib.rs",
        "counter-layer/log/src/lib.rs",
        "counter-core/kafka/src/lib.rs",
    ] {
        for (word, file, line) in words(&Tree::of(root)) {
            assert!(!is_forbidden(&word) || is_exception(&word, &file), "{word} in {file}:{line}");
        }
    }
}

#[test]
fn a_forbidden_word_is_found_in_code_only() {
    let forbidden =
        |source: &str| words(&sample(source)).iter().filter(|(word, ..)| is_forbidden(word)).count();
    for source in [
        "fn f() { tokio::task::spawn_local(g()); }",
        "fn f() { std::thread::spawn(g); }",
        "#[cfg(test)] mod tests {} fn f() { spawn_blocking(g); }",
        "mod inside { static COUNT: u8 = 0; }",
        "macro_rules! m { () => { println!() }; }",
        "fn f() { select!({ spawn(g) }) }",
        "impl A { #[test] fn t() {} fn f() { dbg!(1); } }",
    ] {
        assert_eq!(forbidden(source), 1, "{source}");
    }
    for source in [
        "/// They spawn static things.\nfn f() { /* spawn */ g(\"spawn\", r#\"static\"#, 's'); } // static",
        "fn f(text: &'static str) -> Box<dyn Any + 'static> { g(text) }",
        "#[cfg(test)] mod tests { fn f() { spawn(g); } }",
        "#[cfg(all(test, feature = \"x\"))] fn f() { spawn(g); }",
        "impl A { #[cfg(test)] fn t() { spawn(g); } }",
    ] {
        assert_eq!(forbidden(source), 0, "{source}");
    }
}
