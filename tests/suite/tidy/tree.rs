//! The modules of a package as its files declare them, without their tests.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, ItemUse, Meta, UseTree};

use super::files::text;

/// Path of a module from the package root, which has an empty path.
pub(super) type ModulePath = Vec<String>;

/// A module, in a separate file or inline.
pub(super) struct Module {
    /// Path of the file in the workspace.
    pub(super) file: String,
    /// Inner attributes, including docs.
    pub(super) attributes: Vec<Attribute>,
    /// Items, without tests and without the contents of child modules.
    pub(super) items: Vec<Item>,
    /// Child modules, in the order of their declarations.
    pub(super) children: Vec<String>,
    /// Imported names, with the paths used to import them.
    imports: BTreeMap<String, Vec<String>>,
}

impl Module {
    /// Returns all tokens, without those of child modules.
    pub(super) fn tokens(&self) -> Vec<TokenTree> {
        let mut tokens = TokenStream::new();
        for item in &self.items {
            item.to_tokens(&mut tokens);
        }
        tokens.into_iter().collect()
    }
}

/// Modules of a package, by path.
pub(super) struct Tree {
    pub(super) modules: BTreeMap<ModulePath, Module>,
}

/// A path used by a module, resolved to the module that contains the item.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) from: ModulePath,
    pub(super) to: ModulePath,
    /// Name of the item in that module, if the path does not name the module.
    pub(super) name: Option<String>,
    /// First module with an import that the path goes through, if any.
    pub(super) through: Option<ModulePath>,
    /// File and line of the use.
    pub(super) location: String,
}

/// Fields of a [`Use`] that depend on the path only.
struct Resolved {
    to: ModulePath,
    name: Option<String>,
    through: Option<ModulePath>,
}

impl Tree {
    /// Reads all modules reachable from a root such as `counter-core/src/lib.rs`.
    pub(super) fn of(file: &str) -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        let folder = Path::new(file).parent().expect("a parent folder");
        tree.read(Vec::new(), file, folder.to_str().expect("UTF-8"));
        tree
    }

    fn read(&mut self, path: ModulePath, file: &str, folder: &str) {
        let parsed = syn::parse_file(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.add(path, file, folder, parsed.attrs, parsed.items);
    }

    /// Adds a module and its child modules, with files in `folder`.
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

    /// Returns all uses of paths of this package outside of tests.
    pub(super) fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (from, module) in &self.modules {
            let mut paths = Vec::new();
            scan(&module.tokens(), &mut paths);
            for (path, line) in paths {
                let Some(Resolved { to, name, mut through }) = self.resolve(from, &path, 0) else { continue };
                // This path must work in the module that calls the macro.
                through.take_if(|_| path[0] == "$crate");
                let location = format!("{}:{line}", module.file);
                uses.push(Use { from: from.clone(), to, name, through, location });
            }
        }
        uses
    }

    /// Resolves a path used in the module `from`.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Resolved> {
        assert!(depth < 20, "{path:?} in {from:?} is circular");
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
        for (index, name) in rest.iter().enumerate() {
            let inside = [&at[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&inside) {
                at = inside;
                continue;
            }
            return match self.modules[&at].imports.get(name) {
                // If a path starts with a crate name, the import refers to that crate.
                Some(import) if import != path => {
                    let import = [import, &rest[index + 1..]].concat();
                    let resolved = self.resolve(&at, &import, depth + 1)?;
                    Some(Resolved { through: Some(at), ..resolved })
                }
                _ if relative && index == 0 => None,
                _ => Some(Resolved { to: at, name: Some(name.clone()), through: None }),
            };
        }
        Some(Resolved { to: at, name: None, through: None })
    }
}

/// Returns whether an item is compiled for tests only.
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

/// Returns the outer attributes of an item.
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

/// Finds all paths that start with `crate`, `$crate`, `self` or `super`, also in macros, with line numbers.
fn scan(tokens: &[TokenTree], paths: &mut Vec<(Vec<String>, usize)>) {
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => scan(&group.stream().into_iter().collect::<Vec<_>>(), paths),
            TokenTree::Ident(word) if word == "crate" || word == "self" || word == "super" => {
                let continues = index >= 2 && is_joint(&tokens[index - 2..index]);
                if !continues && is_joint(&tokens[index + 1..]) {
                    let first = paths.len();
                    follow(&tokens[index..], &[], paths);
                    let before = index.checked_sub(1).map(|before| &tokens[before]);
                    if matches!(before, Some(TokenTree::Punct(mark)) if mark.as_char() == '$') {
                        paths[first..].iter_mut().for_each(|(path, _)| path[0].insert(0, '$'));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns whether the next tokens are `::`.
fn is_joint(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    tokens.len() >= 2 && tokens[..2].iter().all(is_colon)
}

/// Adds a path, or all paths of a group.
fn follow(tokens: &[TokenTree], before: &[String], paths: &mut Vec<(Vec<String>, usize)>) {
    match tokens.first() {
        Some(TokenTree::Ident(word)) => {
            let path = if word == "self" && !before.is_empty() {
                before.to_vec()
            } else {
                [before, &[word.to_string()]].concat()
            };
            let continues = is_joint(&tokens[1..]);
            match tokens.get(3) {
                Some(TokenTree::Ident(_)) if continues => follow(&tokens[3..], &path, paths),
                Some(TokenTree::Group(group)) if continues && group.delimiter() == Delimiter::Brace => {
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

/// Returns a package that consists of this source.
pub(super) fn sample(source: &str) -> Tree {
    let parsed = syn::parse_file(source).expect("Rust");
    let mut tree = Tree { modules: BTreeMap::new() };
    tree.add(Vec::new(), "sample.rs", "", parsed.attrs, parsed.items);
    tree
}
