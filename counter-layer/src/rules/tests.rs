use super::*;
use crate::request::path::MAX_BYTES as MAX_PATH;

fn rules(patterns: &[(&str, &str)]) -> Rules {
    let rule = |builder: RulesBuilder, (pattern, counter): &(&str, &str)| {
        builder.rule(Rule::counter(*counter).pattern(*pattern))
    };
    patterns.iter().fold(Rules::builder(), rule).build().expect("rules")
}

pub(super) fn counter<'a>(rules: &'a Rules, method: &'a Method, path: &'a str) -> Option<&'a str> {
    let decision = rules.decide(method, path, None);
    if decision.is_excluded() { Some("(excluded)") } else { decision.counter() }
}

#[track_caller]
fn check(rules: &Rules, expected: &[(&str, Option<&str>)]) {
    for (path, expected) in expected {
        assert_eq!(counter(rules, &Method::GET, path), *expected, "{path}");
    }
}

#[test]
fn the_mappings_of_the_servlet_specification_hold() {
    let patterns =
        [("/foo/bar/*", "servlet1"), ("/baz/*", "servlet2"), ("/catalog", "servlet3"), ("*.bop", "servlet4")];
    check(
        &rules(&patterns),
        &[
            ("/foo/bar/index.html", Some("servlet1")),
            ("/foo/bar/index.bop", Some("servlet1")),
            ("/baz", Some("servlet2")),
            ("/baz/index.html", Some("servlet2")),
            ("/catalog", Some("servlet3")),
            ("/catalog/index.html", None),
            ("/catalog/racecar.bop", Some("servlet4")),
            ("/index.bop", Some("servlet4")),
        ],
    );
}

#[test]
fn each_pattern_kind_matches_its_paths() {
    check(
        &rules(&[
            ("", "home"),
            ("/a", "exact"),
            ("/b/*", "prefix"),
            ("/b/c/*", "longer"),
            ("*.x", "extension"),
        ]),
        &[
            ("/", Some("home")),
            ("/a", Some("exact")),
            ("/a/", None),
            ("/b", Some("prefix")),
            ("/b/", Some("prefix")),
            ("/bc", None),
            ("/b/cd", Some("prefix")),
            ("/b/c", Some("longer")),
            ("/b/c/d/e/f.x", Some("longer")),
            ("/c/d.e.x", Some("extension")),
            ("/.x", Some("extension")),
            ("/d.X", None),
            ("/d.x/", None),
            ("/d.x/e", None),
        ],
    );
    check(
        &rules(&[("/a/{id}", "one"), ("/a/new", "exact"), ("/f/{*rest}", "below"), ("/*", "all")]),
        &[
            ("/a/7", Some("one")),
            ("/a/7/", Some("all")),
            ("/a/", Some("all")),
            ("/a/new", Some("exact")),
            ("/f/x/y", Some("below")),
            ("/f/", Some("all")),
            ("/", Some("all")),
        ],
    );
    check(
        &rules(&[("/by-{name}", "last"), ("/by-{name}/books", "inside")]),
        &[
            ("/by-ann", Some("last")),
            ("/by-", None),
            ("/by-ann/books", Some("inside")),
            // This is the same in the axum router.
            ("/by-/books", Some("inside")),
        ],
    );
}

#[test]
fn exclusions_win_over_rules_and_kinds_are_ordered() {
    let all = Rules::builder()
        .rule(Rule::counter("exact").pattern("/a/b.x"))
        .rule(Rule::counter("template").pattern("/a/{name}"))
        .rule(Rule::counter("prefix").pattern("/a/*"))
        .rule(Rule::counter("extension").pattern("*.x"))
        .exclude("/a/secret/*")
        .exclude("*.ico")
        .by_matched_path()
        .default_counter("rest")
        .build()
        .expect("rules");
    check(
        &all,
        &[
            ("/a/b.x", Some("exact")),
            ("/a/c.x", Some("template")),
            ("/a/c/d.x", Some("prefix")),
            ("/d.x", Some("extension")),
            ("/d", Some("rest")),
            ("/a/secret", Some("(excluded)")),
            ("/a/b.ico", Some("(excluded)")),
            ("*", Some("rest")),
            ("example.com:443", Some("rest")),
        ],
    );
    let decision = |path, template| all.explain(&Method::GET, path, template).decision;
    assert_eq!(decision("/d", Some("/{x}")), Decision::MatchedPath("/{x}"));
    assert!(matches!(decision("/a", Some("/{x}")), Decision::Rule { counter: "prefix", .. }));
    let long = format!("/a/{}", "x".repeat(MAX_PATH));
    assert_eq!(decision(&long, None), Decision::PathTooLong(MAX_PATH + 3));
    assert_eq!(all.decide(&Method::GET, &long, Some("/{x}")).counter(), None);
}

#[test]
fn rules_apply_to_their_methods_and_get_includes_head() {
    let rules = Rules::builder()
        .rule(Rule::counter("read").pattern("/a/{id}").pattern("/b").method(Method::GET))
        .rule(Rule::counter("written").pattern("/a/{id}").method(Method::POST).method(Method::PUT))
        .rule(Rule::counter("probed").pattern("/b").method(Method::HEAD))
        .rule(Rule::counter("deleted").pattern("/a/b/*").method(Method::DELETE))
        .rule(Rule::counter("any").pattern("/a/*"))
        .build()
        .expect("rules");
    let purge = Method::from_bytes(b"PURGE").expect("a method");
    for (method, path, expected) in [
        (Method::GET, "/a/1", Some("read")),
        (Method::HEAD, "/a/1", Some("read")),
        (Method::POST, "/a/1", Some("written")),
        (Method::PUT, "/a/1", Some("written")),
        (Method::DELETE, "/a/1", Some("any")),
        (Method::DELETE, "/a/b/1", Some("deleted")),
        (Method::GET, "/a/b/1", Some("any")),
        (purge, "/a/1", Some("any")),
        (Method::GET, "/b", Some("read")),
        (Method::HEAD, "/b", Some("probed")),
        (Method::POST, "/b", None),
    ] {
        assert_eq!(counter(&rules, &method, path), expected, "{method} {path}");
    }
}

#[test]
fn explanations_name_the_pattern_and_the_reason() {
    let rules = Rules::builder()
        .rule(Rule::counter("articles").pattern("/articles/{id}").weight(NonZeroU32::MAX).without_visitors())
        .build()
        .expect("rules");
    let words = |path, template| rules.explain(&Method::GET, path, template).to_string();
    assert_eq!(
        words("/x/../articles/%37", None),
        "GET /articles/7 counts under \"articles\" as 4294967295 without visitors by the template \
         pattern \"/articles/{id}\": no exact pattern matches, and this is the most specific template"
    );
    assert_eq!(words("/articles", Some("/articles")), "GET /articles does not match any rule");
    assert_eq!(words("*", None), "GET without a path does not match any rule");
    assert_eq!(
        words(&"/".repeat(9000), None),
        "GET with a path of 9000 bytes is not matched: the maximum is 8192"
    );
}

#[test]
fn a_conflict_names_both_patterns_and_counters() {
    let get = |pattern: &str| Rule::counter("one").pattern(pattern).method(Method::GET);
    let any = |pattern: &str| Rule::counter("other").pattern(pattern);
    for (one, other) in [
        ("/a", "/a"),
        ("/caf%C3%A9", "/caf\u{e9}"),
        ("/a/*", "/a/*"),
        ("*.x", "*.x"),
        ("/a/{x}", "/a/{y}"),
        ("/a/{x}/b", "/a/{y}/b"),
        ("/a/{x}", "/a/{*x}"),
        ("/a/{*x}", "/a/{x}/b"),
    ] {
        let tie = |one: &str, other: &str, counters: [&str; 2]| {
            let patterns = [one, other].map(str::to_owned);
            RulesError::Conflict { patterns, counters: counters.map(str::to_owned) }
        };
        let found = Rules::builder().rule(get(one)).rule(any(other)).build();
        assert_eq!(found.expect_err("a tie"), tie(one, other, ["one", "other"]));
        let found = Rules::builder().rule(any(one)).rule(get(other)).build();
        assert_eq!(found.expect_err("a tie"), tie(one, other, ["other", "one"]));

        let patterns = [one, other].map(str::to_owned);
        let found = Rules::builder().rule(any(one).pattern(other)).build();
        let repeated =
            RulesError::DuplicatePattern { patterns: patterns.clone(), counter: "other".to_owned() };
        assert_eq!(found.expect_err("twice in a rule"), repeated);
        let found = Rules::builder().exclude(one).exclude(other).build();
        assert_eq!(found.expect_err("excluded twice"), RulesError::DuplicateExclude { patterns });
    }
}

#[test]
fn invalid_rules_are_errors() {
    for (builder, words) in [
        (Rules::builder().exclude("assets/*"), "the pattern \"assets/*\" does not start with a slash"),
        (Rules::builder().rule(Rule::counter("a")), "the rule for \"a\" has no pattern"),
        (Rules::builder().rule(Rule::counter("").pattern("/a")), "invalid counter name \"\""),
        (Rules::builder().default_counter("a\nb"), "invalid counter name \"a\\nb\""),
        (
            Rules::builder()
                .rule(Rule::counter("a").pattern("/a").method(Method::from_bytes(b"get").expect("a method"))),
            "the rule for \"a\" has the method get: write GET",
        ),
    ] {
        let error = builder.build().expect_err(words).to_string();
        assert!(error.starts_with(words), "{error}");
    }
}
