use matchit::Router;

use crate::rules::literals::Literals;
use crate::rules::pattern::{Pattern, PatternKind};

/// Patterns by what finds them, each with its number.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    exact: Literals,
    templates: Router<usize>,
    /// The templates by their keys, since the router does not tell which one a new one competes with.
    template_keys: Literals,
    prefixes: Literals,
    extensions: Literals,
}

impl Table {
    /// Adds a pattern, or tells which one matches the same paths with the same right.
    pub(super) fn insert(&mut self, pattern: &Pattern, number: usize) -> Result<(), usize> {
        if let Some(holder) = self.holder(pattern) {
            return Err(holder);
        }
        let key = pattern.key.clone();
        match pattern.kind {
            PatternKind::Exact => self.exact.insert(key, number),
            PatternKind::Extension => self.extensions.insert(key, number),
            PatternKind::Prefix => self.prefixes.insert(key, number),
            PatternKind::Template => {
                if self.templates.insert(&*key, number).is_err() {
                    return Err(self.rival(&key).unwrap_or(number));
                }
                self.template_keys.insert(key, number);
            }
        }
        Ok(())
    }

    /// The number of the pattern that differs in the names of parameters at most.
    pub(super) fn holder(&self, pattern: &Pattern) -> Option<usize> {
        let patterns = match pattern.kind {
            PatternKind::Exact => &self.exact,
            PatternKind::Template => &self.template_keys,
            PatternKind::Prefix => &self.prefixes,
            PatternKind::Extension => &self.extensions,
        };
        patterns.get(&pattern.key)
    }

    /// The pattern that decides about a normal path.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.exact
            .get(path)
            .or_else(|| self.find_template(path))
            .or_else(|| self.find_prefix(path))
            .or_else(|| self.find_extension(path))
    }

    fn find_template(&self, path: &str) -> Option<usize> {
        // An empty router would make room for parameters all the same.
        if self.template_keys.is_empty() {
            return None;
        }
        Some(*self.templates.at(path).ok()?.value)
    }

    fn find_prefix(&self, path: &str) -> Option<usize> {
        if self.prefixes.is_empty() {
            return None;
        }
        // Begins no deeper than the deepest pattern: a long path must not be hashed once a slash.
        let mut head = match path.as_bytes().get(..=self.prefixes.longest()) {
            None => path,
            Some(start) => &path[..last(start, b'/')?],
        };
        loop {
            if let Some(number) = self.prefixes.get(head) {
                return Some(number);
            }
            head = &head[..last(head.as_bytes(), b'/')?];
        }
    }

    fn find_extension(&self, path: &str) -> Option<usize> {
        if self.extensions.is_empty() {
            return None;
        }
        let segment = &path[last(path.as_bytes(), b'/')? + 1..];
        let extension = &segment[last(segment.as_bytes(), b'.')? + 1..];
        self.extensions.get(extension)
    }

    /// The first of the templates that the router cannot hold together with this one.
    fn rival(&self, key: &str) -> Option<usize> {
        let rivals = self.template_keys.iter().filter(|(other, _)| {
            let mut both = Router::new();
            both.insert(*other, ()).and_then(|()| both.insert(key, ())).is_err()
        });
        rivals.map(|(_, number)| number).min()
    }
}

/// The last place of that byte. Segments are short: a search made for long texts takes longer.
fn last(text: &[u8], byte: u8) -> Option<usize> {
    text.iter().rposition(|other| *other == byte)
}
