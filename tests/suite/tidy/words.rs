//! Words that have a home, or none at all.

use proc_macro2::TokenTree;

use super::tree::{Tree, sample};

/// Every word of the code with its file and line, without comments, texts, lifetimes and tests.
fn words(tree: &Tree) -> Vec<(String, String, usize)> {
    fn walk(tokens: &[TokenTree], file: &str, words: &mut Vec<(String, String, usize)>) {
        for (place, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    walk(&group.stream().into_iter().collect::<Vec<_>>(), file, words);
                }
                TokenTree::Ident(word) => {
                    let before = place.checked_sub(1).map(|before| &tokens[before]);
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
fn only_in(word: &str, tree: &Tree, at_home: impl Fn(&str) -> bool) {
    for (found, file, line) in words(tree) {
        assert!(found != word || at_home(&file), "{word} in {file}:{line}");
    }
}

#[test]
fn fred_stays_in_the_redis_store_and_http_in_the_layer_and_axum_behind_two_doors() {
    let (core, layer) = (Tree::of("counter-core/src/lib.rs"), Tree::of("counter-layer/src/lib.rs"));
    // What is said to a server lies in files and folders of that name; `stores` re-exports the client.
    only_in("fred", &core, |file| {
        file.split(['/', '.']).any(|part| part == "redis") || file == "counter-core/src/stores.rs"
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

/// Whether a word spawns, is global to the process, or prints.
fn is_forbidden(word: &str) -> bool {
    let globals = ["static", "thread_local", "LazyLock", "LazyCell", "lazy_static"];
    let prints = ["print", "println", "eprint", "eprintln", "dbg"];
    word.starts_with("spawn") || globals.contains(&word) || prints.contains(&word)
}

#[test]
fn nothing_spawns_unasked_and_nothing_is_global() {
    // `Counters::spawn`, which is called to spawn; and the crate of what each tally has for each thread, and takes with it,
    // with what tells that a thread is ending.
    let asked = |word: &str, file: &str| {
        [
            ("spawn", "counter-core/src/visits/counters/upkeep.rs"),
            // The connection of a Redis store, whose `connect` says so, and the lookup of its name.
            ("spawn", "counter-core/src/redis/dialer.rs"),
            ("spawn", "counter-core/src/redis/address.rs"),
            ("thread_local", "counter-core/src/visits/tally/stripes.rs"),
            ("static", "counter-core/src/visits/tally/stripes.rs"),
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
            assert!(!is_forbidden(&word) || asked(&word, &file), "{word} in {file}:{line}");
        }
    }
}

#[test]
fn a_forbidden_word_is_found_wherever_it_is_code_and_nowhere_else() {
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
