use matchit::Router;

use crate::rules::literals::Literals;
use crate::rules::pattern::{Pattern, PatternKind};

/// A lookup table from path to pattern number, with a map for each pattern kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    exact: Literals,
    templates: Router<usize>,
    /// The keys of the templates, because the router does not report the template that causes a conflict.
    template_keys: Literals,
    prefixes: Literals,
    extensions: Literals,
}

impl Table {
    /// Adds a pattern, or returns the number of a pattern of equal rank that matches the same paths.
    pub(super) fn insert(&mut self, pattern: &Pattern, number: usize) -> Result<(), usize> {
        if let Some(existing) = self.existing(pattern) {
            return Err(existing);
        }
        let key = pattern.key.clone();
        match pattern.kind {
            PatternKind::Exact => self.exact.insert(key, number),
            PatternKind::Extension => self.extensions.insert(key, number),
            PatternKind::Prefix => self.prefixes.insert(key, number),
            PatternKind::Template => {
                if self.templates.insert(&*key, number).is_err() {
                    return Err(self.conflicting(&key).unwrap_or(number));
                }
                self.template_keys.insert(key, number);
            }
        }
        Ok(())
    }

    /// Returns the number of an equal pattern, ignoring parameter names.
    pub(super) fn existing(&self, pattern: &Pattern) -> Option<usize> {
        let patterns = match pattern.kind {
            PatternKind::Exact => &self.exact,
            PatternKind::Template => &self.template_keys,
            PatternKind::Prefix => &self.prefixes,
            PatternKind::Extension => &self.extensions,
        };
        patterns.get(&pattern.key)
    }

    /// Returns the number of the best match for a normal path.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.exact
            .get(path)
            .or_else(|| self.find_template(path))
            .or_else(|| self.find_prefix(path))
            .or_else(|| self.find_extension(path))
    }

    fn find_template(&self, path: &str) -> Option<usize> {
        // Even an empty router would need to allocate some space for parameters.
        if self.template_keys.is_empty() {
            return None;
        }
        Some(*self.templates.at(path).ok()?.value)
    }

    fn find_prefix(&self, path: &str) -> Option<usize> {
        if self.prefixes.is_empty() {
            return None;
        }
        // Start at the length of the longest prefix, to avoid hashing a long path for each slash.
        let mut head = match path.as_bytes().get(..=self.prefixes.longest()) {
            None => path,
            Some(start) => &path[..last_position(start, b'/')?],
        };
        loop {
            if let Some(number) = self.prefixes.get(head) {
                return Some(number);
            }
            head = &head[..last_position(head.as_bytes(), b'/')?];
        }
    }

    fn find_extension(&self, path: &str) -> Option<usize> {
        if self.extensions.is_empty() {
            return None;
        }
        let segment = &path[last_position(path.as_bytes(), b'/')? + 1..];
        let extension = &segment[last_position(segment.as_bytes(), b'.')? + 1..];
        self.extensions.get(extension)
    }

    /// Returns the first template that conflicts with this key.
    fn conflicting(&self, key: &str) -> Option<usize> {
        let conflicts = self.template_keys.iter().filter(|(other, _)| {
            let mut both = Router::new();
            both.insert(*other, ()).and_then(|()| both.insert(key, ())).is_err()
        });
        conflicts.map(|(_, number)| number).min()
    }
}

/// Returns the last position of this byte. Segments are short, so this is faster than a search optimized for
/// long texts.
fn last_position(text: &[u8], byte: u8) -> Option<usize> {
    text.iter().rposition(|other| *other == byte)
}
