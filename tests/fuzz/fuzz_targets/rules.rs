//! Arbitrary rules, applied to arbitrary paths and methods.
//!
//! An input is read line by line. The first character of a line determines the meaning of the rest:
//!
//! | character | rest |
//! |---|---|
//! | `=` | the counter of a new rule, which the following lines modify |
//! | `+` | a pattern of this rule |
//! | `@` | a method of this rule |
//! | `#` | the weight of this rule |
//! | `!` | ignored: this rule does not count visitors |
//! | `-` | an excluded pattern |
//! | `_` | the default counter |
//! | `$` | ignored: the router's template is used |
//! | `>` | the method of the requests |
//! | `<` | the router's template of the requests |
//! | `&` | a path, repeated until it is too long to be matched |
//!
//! Other lines are paths.
#![no_main]

use std::num::NonZeroU32;

use counter_layer::{Rule, Rules, RulesBuilder, RulesError};
use http::Method;
use libfuzzer_sys::fuzz_target;

/// Maximum number of entries. More entries would only be slower, but not find more.
const MAX_ENTRIES: usize = 8;

/// Maximum length of a path that can be matched.
const MAX_PATH_LENGTH: usize = 8192;

#[derive(Default)]
struct Input<'a> {
    given: Given<'a>,
    method: Method,
    template: Option<&'a str>,
    paths: Vec<String>,
}

#[derive(Clone, Default)]
struct Given<'a> {
    rules: Vec<GivenRule<'a>>,
    excluded: Vec<&'a str>,
    by_matched_path: bool,
    default_counter: Option<&'a str>,
}

#[derive(Clone)]
struct GivenRule<'a> {
    counter: &'a str,
    patterns: Vec<&'a str>,
    methods: Vec<Method>,
    weight: NonZeroU32,
    visitors: bool,
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let Input { given, method, template, paths } = Input::read(&text);
    let built = given.build();
    assert_eq!(built.is_ok(), given.reversed().build().is_ok(), "building depends on the order");
    let given = match built {
        Ok(_) => given,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            given.compatible()
        }
    };
    let rules = given.build().expect("conflicts have been removed");
    let reversed = given.reversed().build().expect("the same in another order");
    for path in &paths {
        check(&rules, &method, path, template);
        let (one, other) =
            (rules.explain(&method, path, template), reversed.explain(&method, path, template));
        assert_eq!(one, other, "the decision depends on the order");
    }
});

fn check(rules: &Rules, method: &Method, path: &str, template: Option<&str>) {
    let explained = rules.explain(method, path, template);
    assert!(!explained.to_string().is_empty());
    assert_eq!(explained.decision, rules.decide(method, path, template));
    if let Some(counter) = explained.decision.counter() {
        let named = rules.counters().any(|name| name == counter) || template == Some(counter);
        assert!(named, "unknown counter {counter:?}");
    }
    // The encoded path may be too long to be matched.
    let Some(normal) = explained.path.as_ref().filter(|path| path.len() <= MAX_PATH_LENGTH) else { return };
    let again = rules.explain(method, normal, template);
    assert_eq!(again.path.as_ref(), Some(normal), "the normal form of {path:?} is not stable");
    assert_eq!(again.decision, explained.decision);

    if path.contains(['?', '#']) || path.len() * 3 + 4 > MAX_PATH_LENGTH {
        return;
    }
    let with_a_parameter = format!("{path};a=b");
    assert_eq!(rules.explain(method, &with_a_parameter, template), explained);
    if !path.contains('%') {
        let encoded = percent_encoded(path);
        assert_eq!(rules.explain(method, &encoded, template), explained);
    }
}

fn percent_encoded(path: &str) -> String {
    path.bytes().fold(String::new(), |text, byte| match byte {
        b'/' | b';' => text + if byte == b'/' { "/" } else { ";" },
        // Sub-delimiters change their meaning if they are encoded.
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':' | b'@' => {
            text + char::from(byte).encode_utf8(&mut [0; 4])
        }
        _ => text + &format!("%{byte:02x}"),
    })
}

impl<'a> Input<'a> {
    fn read(text: &'a str) -> Self {
        let mut input = Self::default();
        for line in text.split('\n') {
            input.read_line(line);
        }
        input
    }

    fn read_line(&mut self, line: &'a str) {
        let sign = line.chars().next().unwrap_or_default();
        let rest = &line[sign.len_utf8().min(line.len())..];
        let given = &mut self.given;
        let has_capacity = given.rules.len() < MAX_ENTRIES;
        match (sign, given.rules.last_mut()) {
            ('=', _) if has_capacity => given.rules.push(GivenRule::new(rest)),
            ('+', Some(rule)) if rule.patterns.len() < MAX_ENTRIES => rule.patterns.push(rest),
            ('@', Some(rule)) if rule.methods.len() < MAX_ENTRIES => {
                rule.methods.extend(Method::from_bytes(rest.as_bytes()));
            }
            ('#', Some(rule)) => rule.weight = rest.parse().unwrap_or(rule.weight),
            ('!', Some(rule)) => rule.visitors = false,
            ('-', _) if given.excluded.len() < MAX_ENTRIES => given.excluded.push(rest),
            ('_', _) => given.default_counter = Some(rest),
            ('$', _) => given.by_matched_path = true,
            ('>', _) => self.method = Method::from_bytes(rest.as_bytes()).unwrap_or_default(),
            ('<', _) => self.template = Some(rest),
            ('&', _) if !rest.is_empty() && self.paths.len() < MAX_ENTRIES => {
                self.paths.push(rest.repeat(MAX_PATH_LENGTH / rest.len() + 1));
            }
            _ if self.paths.len() < MAX_ENTRIES => self.paths.push(line.to_owned()),
            _ => {}
        }
    }
}

impl Given<'_> {
    fn build(&self) -> Result<Rules, RulesError> {
        let mut builder = Rules::builder();
        for rule in &self.rules {
            builder = builder.rule(rule.rule());
        }
        builder = self.excluded.iter().copied().fold(builder, RulesBuilder::exclude);
        if self.by_matched_path {
            builder = builder.by_matched_path();
        }
        if let Some(counter) = self.default_counter {
            builder = builder.default_counter(counter);
        }
        builder.build()
    }

    fn reversed(&self) -> Self {
        let mut reversed = self.clone();
        reversed.rules.reverse();
        reversed.excluded.reverse();
        for rule in &mut reversed.rules {
            rule.patterns.reverse();
            rule.methods.reverse();
        }
        reversed
    }

    /// Removes entries that conflict with earlier entries.
    fn compatible(self) -> Self {
        let mut retained = Self { by_matched_path: self.by_matched_path, ..Self::default() };
        retained.default_counter = self.default_counter;
        if retained.build().is_err() {
            retained.default_counter = None;
        }
        for rule in self.rules {
            retained.rules.push(rule);
            if retained.build().is_err() {
                retained.rules.pop();
            }
        }
        for pattern in self.excluded {
            retained.excluded.push(pattern);
            if retained.build().is_err() {
                retained.excluded.pop();
            }
        }
        retained
    }
}

impl<'a> GivenRule<'a> {
    const fn new(counter: &'a str) -> Self {
        Self { counter, patterns: Vec::new(), methods: Vec::new(), weight: NonZeroU32::MIN, visitors: true }
    }

    fn rule(&self) -> Rule {
        let rule = Rule::counter(self.counter).weight(self.weight);
        let rule = self.patterns.iter().copied().fold(rule, Rule::pattern);
        let rule = self.methods.iter().cloned().fold(rule, Rule::method);
        if self.visitors { rule } else { rule.without_visitors() }
    }
}
