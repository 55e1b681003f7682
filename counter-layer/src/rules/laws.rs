use std::cmp::Reverse;

use proptest::prelude::*;
use proptest::sample::select;

use super::tests::counter;
use super::*;

/// A rule with a single pattern, and the methods.
type Given = (String, Vec<Method>);

fn build<'a>(given: impl Iterator<Item = &'a Given>) -> Result<Rules, RulesError> {
    let rule = |builder: RulesBuilder, (pattern, methods): &Given| {
        // Used to identify the rule.
        let counter = format!("{pattern} {methods:?}");
        let rule = Rule::counter(counter).pattern(pattern);
        builder.rule(methods.iter().cloned().fold(rule, Rule::method))
    };
    given.fold(Rules::builder(), rule).build()
}

/// Returns the rules that don't conflict.
fn compatible(given: Vec<Given>) -> Vec<Given> {
    let mut compatible_rules: Vec<Given> = Vec::new();
    for rule in given {
        if build(compatible_rules.iter().chain([&rule])).is_ok() {
            compatible_rules.push(rule);
        }
    }
    compatible_rules
}

/// Returns the matching rule, by comparing all rules.
fn reference<'a>(given: &'a [Given], method: &Method, path: &str) -> Option<&'a Given> {
    let path = path::normalise(path).ok()?;
    let takes = |methods: &[Method], method| methods.is_empty() || methods.contains(method);
    let matching = given.iter().filter_map(|rule @ (pattern, methods)| {
        let inherited = *method == Method::HEAD && methods.contains(&Method::GET);
        let order = specificity(pattern, &path)?;
        (takes(methods, method) || inherited).then_some((order, !takes(methods, method), rule))
    });
    matching.min_by(|(a, b, _), (c, d, _)| (a, b).cmp(&(c, d))).map(|(_, _, rule)| rule)
}

/// Returns the rank of a pattern, if it matches the path.
fn specificity(pattern: &str, path: &str) -> Option<(u8, Reverse<usize>, Vec<u16>)> {
    const ONE: u16 = 256;
    const REST: u16 = 257;
    if pattern.contains('{') {
        let mut tokens: Vec<u16> = Vec::new();
        let mut left = path.as_bytes();
        let mut bytes = pattern.bytes();
        while let Some(byte) = bytes.next() {
            if byte == b'{' {
                let name: Vec<u8> = bytes.by_ref().take_while(|byte| *byte != b'}').collect();
                let rest = name[0] == b'*';
                let end = left.iter().position(|byte| !rest && *byte == b'/').unwrap_or(left.len());
                if left.is_empty() {
                    return None;
                }
                left = &left[end..];
                tokens.push(if rest { REST } else { ONE });
            } else {
                left = left.strip_prefix(&[byte])?;
                tokens.push(byte.into());
            }
        }
        return left.is_empty().then_some((1, Reverse(0), tokens));
    }
    if let Some(prefix) = pattern.strip_suffix("/*") {
        let below = path.strip_prefix(prefix)?;
        let length = Reverse(prefix.len());
        return (below.is_empty() || below.starts_with('/')).then_some((2, length, Vec::new()));
    }
    if let Some(extension) = pattern.strip_prefix("*.") {
        let (_, last) = path.rsplit_once('/')?;
        return (last.rsplit_once('.')?.1 == extension).then_some((3, Reverse(0), Vec::new()));
    }
    (path == pattern || pattern.is_empty() && path == "/").then_some((0, Reverse(0), Vec::new()))
}

fn any_rule() -> impl Strategy<Value = Given> {
    let literal = "(/(a|b|ab|a\\.x|b\\.y)){1,3}/?";
    let template =
        "(/(a|ab|\\{x\\}|\\{y\\}|a\\{z\\}|b\\{z\\})){0,3}/(\\{x\\}|\\{\\*r\\}|a\\{z\\}|\\{x\\}/|a)";
    let prefix = "(/(a|b|ab)){0,3}/\\*";
    let pattern = prop_oneof![Just(String::new()), literal, template, prefix, "\\*\\.(x|y|a)"];
    let method = select(vec![Method::GET, Method::HEAD, Method::POST]);
    (pattern, proptest::collection::vec(method, 0..3))
}

fn any_method() -> impl Strategy<Value = Method> {
    select(vec![Method::GET, Method::HEAD, Method::POST, Method::PATCH])
}

proptest! {
    #[test]
    fn decisions_equal_a_comparison_with_all_rules(
        given in proptest::collection::vec((any_rule(), any::<u32>()), 0..24),
        paths in proptest::collection::vec("(/(a|b|ab|abc|a\\.x|b\\.y|%61|\\.\\.|c;a)?){0,4}", 1..24),
        method in any_method(),
    ) {
        let given: Vec<Given> = given.into_iter().map(|(rule, _)| rule).collect();
        let in_order = build(given.iter()).is_ok();
        prop_assert_eq!(in_order, build(given.iter().rev()).is_ok());

        let given = compatible(given);
        let rules = build(given.iter()).expect("compatible rules");
        for path in &paths {
            let found = counter(&rules, &method, path);
            let expected = reference(&given, &method, path);
            let expected = expected.map(|(pattern, methods)| format!("{pattern} {methods:?}"));
            prop_assert_eq!(found, expected.as_deref(), "{} {} {:?}", method, path, given);
        }
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        (given, shuffled) in proptest::collection::vec(any_rule(), 0..24).prop_map(compatible)
            .prop_flat_map(|given| (Just(given.clone()), Just(given).prop_shuffle())),
        paths in proptest::collection::vec("(/(a|b|ab|abc|a\\.x|b\\.y)?){0,4}", 1..24),
        method in any_method(),
    ) {
        let (one, other) = (build(given.iter()), build(shuffled.iter()));
        let (one, other) = (one.expect("compatible rules"), other.expect("the same rules"));
        for path in &paths {
            prop_assert_eq!(one.explain(&method, path, None), other.explain(&method, path, None));
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic(
        patterns in proptest::collection::vec("[/*{}a.:;%~?é\n ]{0,8}|\\PC{0,12}", 0..8),
        excluded in "[/*{}a.]{0,6}",
        path in "[/*{}a.:;%~?é]{0,12}|\\PC{0,24}",
        template in proptest::option::of("\\PC{0,8}"),
    ) {
        let mut builder = Rules::builder().by_matched_path();
        for pattern in patterns.into_iter().chain([excluded]) {
            let more = builder.clone().rule(Rule::counter("a").pattern(&pattern)).exclude(&pattern);
            match more.build() {
                Ok(_) => builder = builder.rule(Rule::counter("a").pattern(&pattern)),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
        let rules = builder.build().expect("rules that were tried");
        let explained = rules.explain(&Method::GET, &path, template.as_deref());
        prop_assert!(!explained.to_string().is_empty());
        prop_assert_eq!(explained.decision, rules.decide(&Method::GET, &path, template.as_deref()));
    }
}
