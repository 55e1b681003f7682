//! Summaries of public items and modules, which must make sense in an index.

use proc_macro2::TokenTree;
use syn::{Attribute, Expr, ExprLit, Fields, ImplItem, Item, Lit, Meta, TraitItem, Visibility};

use super::tree::{Tree, attributes, sample};

/// Roots of the checked packages.
const ENFORCED: [&str; 10] = [
    "counter-core/src/lib.rs",
    "counter-core/alert/src/lib.rs",
    "counter-layer/src/lib.rs",
    "counter-layer/admin/src/lib.rs",
    "counter-layer/log/src/lib.rs",
    "counter-core/kafka/src/lib.rs",
    "tests/src/lib.rs",
    "tests/suite/main.rs",
    "example-app/src/lib.rs",
    "example-app/src/main.rs",
];

/// First words of a summary that refers to something outside of it.
const HEADLESS: [&str; 40] = [
    "that", "those", "this", "these", "it", "its", "they", "what", "which", "who", "whom", "whose",
    "whether", "where", "when", "why", "how", "of", "by", "as", "for", "if", "in", "on", "at", "to", "with",
    "without", "from", "since", "until", "while", "because", "so", "such", "and", "or", "but", "also",
    "then",
];

/// Returns whether a summary refers to preceding text, which in an index belongs to another item.
fn is_headless(summary: &str) -> bool {
    let start =
        summary.trim_start_matches(|c: char| c.is_whitespace() || "*_\"'(".contains(c)).to_lowercase();
    let first = start.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    HEADLESS.contains(&first) || start.starts_with("the same")
}

/// Adds the first line of the docs, if any, with the line number.
fn summarize(attributes: &[Attribute], found: &mut Vec<(usize, String)>) {
    let hidden = attributes.iter().any(|attribute| {
        matches!(&attribute.meta, Meta::List(list)
            if list.path.is_ident("doc") && list.tokens.to_string() == "hidden")
    });
    let mut lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                Some((attribute.pound_token.span.start().line, text.value()))
            }
            _ => None,
        },
        _ => None,
    });
    let is_text = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
    if let Some((line, text)) = lines.find(|(_, text)| is_text(text)).filter(|_| !hidden) {
        found.push((line, text.trim().to_owned()));
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn summarize_fields(fields: &Fields, of_variant: bool, found: &mut Vec<(usize, String)>) {
    for field in fields {
        if of_variant || is_public(&field.vis) {
            summarize(&field.attrs, found);
        }
    }
}

/// Adds the summaries of an item and of the public items it contains.
fn summarize_item(item: &Item, found: &mut Vec<(usize, String)>) {
    let public = match item {
        Item::Const(item) => is_public(&item.vis),
        Item::Enum(item) => is_public(&item.vis),
        Item::ExternCrate(item) => is_public(&item.vis),
        Item::Fn(item) => is_public(&item.vis),
        Item::Mod(item) => is_public(&item.vis),
        Item::Static(item) => is_public(&item.vis),
        Item::Struct(item) => is_public(&item.vis),
        Item::Trait(item) => is_public(&item.vis),
        Item::Type(item) => is_public(&item.vis),
        Item::Union(item) => is_public(&item.vis),
        Item::Use(item) => is_public(&item.vis),
        Item::Macro(item) => item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")),
        _ => false,
    };
    if public {
        summarize(attributes(item), found);
    }
    match item {
        Item::Struct(item) if public => summarize_fields(&item.fields, false, found),
        Item::Enum(item) if public => {
            for variant in &item.variants {
                summarize(&variant.attrs, found);
                summarize_fields(&variant.fields, true, found);
            }
        }
        Item::Trait(item) if public => {
            for item in &item.items {
                match item {
                    TraitItem::Const(item) => summarize(&item.attrs, found),
                    TraitItem::Fn(item) => summarize(&item.attrs, found),
                    TraitItem::Type(item) => summarize(&item.attrs, found),
                    _ => {}
                }
            }
        }
        Item::Impl(item) => {
            for item in &item.items {
                match item {
                    ImplItem::Const(item) if is_public(&item.vis) => summarize(&item.attrs, found),
                    ImplItem::Fn(item) if is_public(&item.vis) => summarize(&item.attrs, found),
                    _ => {}
                }
            }
        }
        Item::Macro(item) => {
            summarize_macro(&item.mac.tokens.clone().into_iter().collect::<Vec<_>>(), found);
        }
        _ => {}
    }
}

/// Adds the summaries of public items defined in a macro.
fn summarize_macro(tokens: &[TokenTree], found: &mut Vec<(usize, String)>) {
    let mut docs = Vec::new();
    let mut rest = tokens;
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        match (first, others) {
            (TokenTree::Punct(mark), [TokenTree::Group(group), others @ ..]) if mark.as_char() == '#' => {
                let inside: Vec<_> = group.stream().into_iter().collect();
                if let [TokenTree::Ident(doc), _, TokenTree::Literal(text)] = &inside[..]
                    && doc == "doc"
                {
                    let text = syn::parse_str::<syn::LitStr>(&text.to_string()).expect("a text").value();
                    docs.push((doc.span().start().line, text.trim().to_owned()));
                }
                rest = others;
            }
            (TokenTree::Ident(word), others) => {
                let restricted = matches!(others.first(), Some(TokenTree::Group(_)));
                if word == "pub" && !restricted {
                    found.extend(docs.first().cloned());
                }
                docs.clear();
            }
            (TokenTree::Group(group), _) => {
                docs.clear();
                summarize_macro(&group.stream().into_iter().collect::<Vec<_>>(), found);
            }
            _ => docs.clear(),
        }
    }
}

/// Returns the summaries of a package that do not make sense in an index, with file and line.
fn offenders(tree: &Tree) -> Vec<String> {
    let mut offenders = Vec::new();
    for module in tree.modules.values() {
        let mut found = Vec::new();
        summarize(&module.attributes, &mut found);
        module.items.iter().for_each(|item| summarize_item(item, &mut found));
        let headless = found.into_iter().filter(|(_, summary)| is_headless(summary));
        offenders.extend(headless.map(|(line, summary)| format!("{}:{line}: {summary}", module.file)));
    }
    offenders
}

#[test]
fn public_summaries_make_sense_in_an_index() {
    let all: Vec<_> = ENFORCED.iter().flat_map(|root| offenders(&Tree::of(root))).collect();
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn a_summary_without_a_head_is_found_on_any_public_item() {
    for source in [
        "//! What it is.",
        "/// Those that wait.\npub struct S;",
        "/// Of the store.\n#[derive(Debug)]\npub enum E {}",
        "pub struct S { /// Whose it is.\npub a: u8 }",
        "/// A choice.\npub enum E { /// As it was.\nA }",
        "pub enum E { A { /// If it is there.\nfield: u8 } }",
        "impl S { /// The same, later.\npub fn f() {} }",
        "pub trait T { /// Whether it is.\nfn f(); }",
        "/// *How* it goes.\n///\n/// More.\npub fn f() {}",
        "pub mod m { //! By the way.\n}",
        "macro_rules! m { ($name:ident) => { /// Where it lies.\npub struct $name; }; }",
    ] {
        assert_eq!(offenders(&sample(source)).len(), 1, "{source}");
    }
    for source in [
        "//! # A title\n//!\n//! Counts visits.",
        "/// Returns what it counts.\n///\n/// Of all that there are.\npub fn f() {}",
        "/// What it is.\nstruct S;",
        "/// What it is.\npub(crate) struct S;",
        "/// What it is.\n#[doc(hidden)]\npub struct S;",
        "pub struct S { /// What it is.\na: u8 }",
        "/// Formats a key.\npub fn f() {}",
        "macro_rules! m { () => { /// What it is.\nstruct S; }; }",
    ] {
        assert_eq!(offenders(&sample(source)), [""; 0], "{source}");
    }
}
