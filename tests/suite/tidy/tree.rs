//! The modules of a package as its files declare them, without their tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, ItemUse, Meta, UseTree};

/// The root of the workspace.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a file, by its path in the workspace.
pub(super) fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A module's names from the root of its package, which has none.
pub(super) type ModulePath = Vec<String>;

/// One module, in a file or inside of one.
pub(super) struct Module {
    /// The path of its file in the workspace.
    pub(super) file: String,
    /// The attributes inside of it, its docs among them.
    pub(super) attributes: Vec<Attribute>,
    /// Its items, without tests, and without the contents of its modules.
    pub(super) items: Vec<Item>,
    /// The modules that it declares, in reading order.
    pub(super) children: Vec<String>,
    /// The names that it imports, as the paths that it imports them by.
    imports: BTreeMap<String, Vec<String>>,
}

impl Module {
    /// All its tokens, without those of its modules.
    pub(super) fn tokens(&self) -> Vec<TokenTree> {
        let mut tokens = TokenStream::new();
        for item in &self.items {
            item.to_tokens(&mut tokens);
        }
        tokens.into_iter().collect()
    }
}

/// A package's modules by their paths.
pub(super) struct Tree {
    pub(super) modules: BTreeMap<ModulePath, Module>,
}

/// A path that a module uses, resolved to the module where it ends.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) from: ModulePath,
    pub(super) to: ModulePath,
    /// The name behind the module, if there is one.
    pub(super) name: Option<String>,
    /// The first module whose imports the path goes through, if it goes through any.
    pub(super) through: Option<ModulePath>,
    /// File and line of the use.
    pub(super) place: String,
}

/// The fields of a [`Use`] that follow from its path.
struct Resolved {
    to: ModulePath,
    name: Option<String>,
    through: Option<ModulePath>,
}

impl Tree {
    /// The modules that are reached from a root such as `counter-core/src/lib.rs`.
    pub(super) fn of(file: &str) -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        let folder = Path::new(file).parent().expect("a file lies in a folder");
        tree.read(Vec::new(), file, folder.to_str().expect("UTF-8"));
        tree
    }

    fn read(&mut self, path: ModulePath, file: &str, folder: &str) {
        let parsed = syn::parse_file(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.add(path, file, folder, parsed.attrs, parsed.items);
    }

    /// Adds a module, and the modules in it, whose files lie in `folder`.
    fn add(
        &mut self,
        path: ModulePath,
        file: &str,
        folder: &str,
        attributes: Vec<Attribute>,
        items: Vec<Item>,
    ) {
        let mut module = Module {
            file: file.to_owned(),
            attributes,
            items: Vec::new(),
            children: Vec::new(),
            imports: BTreeMap::new(),
        };
        for mut item in without_tests(items) {
            match &mut item {
                Item::Use(item) => import(item, &mut module.imports),
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    let inside = [&path[..], std::slice::from_ref(&name)].concat();
                    let folder_inside = format!("{folder}/{name}");
                    match item.content.take() {
                        Some((_, items)) => self.add(inside, file, &folder_inside, Vec::new(), items),
                        None => self.read(inside, &format!("{folder_inside}.rs"), &folder_inside),
                    }
                    item.semi = Some(syn::token::Semi::default());
                    module.children.push(name);
                }
                _ => {}
            }
            module.items.push(item);
        }
        self.modules.insert(path, module);
    }

    /// Every use of a path of this package, outside of tests.
    pub(super) fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (from, module) in &self.modules {
            let mut paths = Vec::new();
            scan(&module.tokens(), &mut paths);
            for (path, line) in paths {
                let Some(Resolved { to, name, mut through }) = self.resolve(from, &path, 0) else { continue };
                // It has to work where the macro is used.
                through.take_if(|_| path[0] == "$crate");
                let place = format!("{}:{line}", module.file);
                uses.push(Use { from: from.clone(), to, name, through, place });
            }
        }
        uses
    }

    /// Resolves a path that is written in the module `from`.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Resolved> {
        assert!(depth < 20, "{path:?} in {from:?} goes round in circles");
        let mut at = from.to_vec();
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" | "$crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = others;
        }
        let relative = rest.len() == path.len();
        for (place, name) in rest.iter().enumerate() {
            let inside = [&at[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&inside) {
                at = inside;
                continue;
            }
            return match self.modules[&at].imports.get(name) {
                // A path that begins with a crate's name imports that crate's item.
                Some(import) if import != path => {
                    let import = [import, &rest[place + 1..]].concat();
                    let resolved = self.resolve(&at, &import, depth + 1)?;
                    Some(Resolved { through: Some(at), ..resolved })
                }
                _ if relative && place == 0 => None,
                _ => Some(Resolved { to: at, name: Some(name.clone()), through: None }),
            };
        }
        Some(Resolved { to: at, name: None, through: None })
    }
}

/// Whether an item is there for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.segments.last().is_some_and(|name| name.ident == "test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.replace(' ', "").starts_with("all(test,")
        }
        _ => false,
    })
}

fn without_tests(items: Vec<Item>) -> impl Iterator<Item = Item> {
    items.into_iter().filter_map(|mut item| {
        if let Item::Impl(item) = &mut item {
            item.items.retain(|item| match item {
                ImplItem::Const(item) => !is_test(&item.attrs),
                ImplItem::Fn(item) => !is_test(&item.attrs),
                _ => true,
            });
        }
        (!is_test(attributes(&item))).then_some(item)
    })
}

/// The attributes before an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn import(item: &ItemUse, imports: &mut BTreeMap<String, Vec<String>>) {
    fn walk(tree: &UseTree, path: &[String], imports: &mut BTreeMap<String, Vec<String>>) {
        let with = |name: &Ident| [path, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(tree) => walk(&tree.tree, &with(&tree.ident), imports),
            UseTree::Group(tree) => tree.items.iter().for_each(|tree| walk(tree, path, imports)),
            UseTree::Name(tree) if tree.ident == "self" => {
                let name = path.last().expect("a module that is imported").clone();
                imports.insert(name, path.to_vec());
            }
            UseTree::Name(tree) => drop(imports.insert(tree.ident.to_string(), with(&tree.ident))),
            UseTree::Rename(tree) => drop(imports.insert(tree.rename.to_string(), with(&tree.ident))),
            UseTree::Glob(_) => {}
        }
    }
    walk(&item.tree, &[], imports);
}

/// Finds the paths that begin with `crate`, `$crate`, `self` or `super`, in macros as well, with their lines.
fn scan(tokens: &[TokenTree], paths: &mut Vec<(Vec<String>, usize)>) {
    for (place, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => scan(&group.stream().into_iter().collect::<Vec<_>>(), paths),
            TokenTree::Ident(word) if word == "crate" || word == "self" || word == "super" => {
                let continues = place >= 2 && is_joint(&tokens[place - 2..place]);
                if !continues && is_joint(&tokens[place + 1..]) {
                    let first = paths.len();
                    follow(&tokens[place..], &[], paths);
                    let before = place.checked_sub(1).map(|before| &tokens[before]);
                    if matches!(before, Some(TokenTree::Punct(mark)) if mark.as_char() == '$') {
                        paths[first..].iter_mut().for_each(|(path, _)| path[0].insert(0, '$'));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether the next tokens are `::`.
fn is_joint(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    tokens.len() >= 2 && tokens[..2].iter().all(is_colon)
}

/// Follows one path, or each path of a group.
fn follow(tokens: &[TokenTree], before: &[String], paths: &mut Vec<(Vec<String>, usize)>) {
    match tokens.first() {
        Some(TokenTree::Ident(word)) => {
            let path = if word == "self" && !before.is_empty() {
                before.to_vec()
            } else {
                [before, &[word.to_string()]].concat()
            };
            let goes_on = is_joint(&tokens[1..]);
            match tokens.get(3) {
                Some(TokenTree::Ident(_)) if goes_on => follow(&tokens[3..], &path, paths),
                Some(TokenTree::Group(group)) if goes_on && group.delimiter() == Delimiter::Brace => {
                    let inside: Vec<_> = group.stream().into_iter().collect();
                    let comma =
                        |token: &TokenTree| matches!(token, TokenTree::Punct(c) if c.as_char() == ',');
                    inside.split(comma).for_each(|tokens| follow(tokens, &path, paths));
                }
                _ => paths.push((path, word.span().start().line)),
            }
        }
        _ => paths.push((before.to_vec(), 0)),
    }
}

/// A package of this text alone.
pub(super) fn sample(source: &str) -> Tree {
    let parsed = syn::parse_file(source).expect("Rust");
    let mut tree = Tree { modules: BTreeMap::new() };
    tree.add(Vec::new(), "sample.rs", "", parsed.attrs, parsed.items);
    tree
}
