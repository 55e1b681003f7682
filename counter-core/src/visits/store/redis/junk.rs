//! Entries in Redis under the keys of visits that are something else.

use std::collections::HashSet;
use std::sync::Mutex;

use fred::types::Value;

use crate::error::Error;
use crate::redis::answer_of;
use crate::time::Timestamp;
use crate::visits::store::reading::Unreadable;

/// The number of keys that are reported in the log.
const TOLD: usize = 1000;

/// The number of characters of a foreign text that are repeated in a message.
const REPEATED: usize = 60;

/// The entries found in one key, while it is read, that do not belong there.
#[derive(Debug, Default)]
pub(crate) struct Junk {
    first: Option<String>,
    more: usize,
    buckets: Vec<Timestamp>,
}

/// The keys that were reported in the log: each once, since pages are read every second.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<HashSet<String>>);

impl Junk {
    /// Adds a field or member that does not belong there, and the reason.
    pub(crate) fn add(&mut self, what: &Value, why: &str) {
        match self.first {
            None => self.first = Some(format!("{} {why}", repeat(what))),
            Some(_) => self.more += 1,
        }
    }

    /// Adds a bucket whose count is not a number.
    pub(crate) fn add_bucket(&mut self, start: Timestamp, count: &Value) {
        self.add(count, &format!("in the field \"{start}\" is no count"));
        self.buckets.push(start);
    }

    /// Returns everything that was found, or `None`.
    pub(crate) fn found(mut self, key: &str) -> Option<Unreadable> {
        let mut reason = self.first?;
        if self.more > 0 {
            reason += &format!(", and {} more", self.more);
        }
        self.buckets.sort_unstable();
        Some(Unreadable { buckets: self.buckets, ..Unreadable::new(key, reason) })
    }
}

impl Told {
    /// Reports a key that cannot be read in the log, unless it was reported before.
    pub(crate) fn tell(&self, unreadable: &Unreadable) {
        let is_new = {
            let mut told = self.0.lock().expect("nothing panics under this lock");
            told.len() < TOLD && !told.contains(&unreadable.key) && told.insert(unreadable.key.clone())
        };
        // Not under the lock: a subscriber may panic.
        if is_new {
            let Unreadable { key, reason, .. } = unreadable;
            tracing::warn!(key, reason, "what is under this key cannot be read and is left out");
        }
    }
}

/// Describes a whole key that the server says is something else.
pub(crate) fn wrong_key(key: &str, error: &Error) -> Unreadable {
    Unreadable::new(key, answer_of(error).map_or_else(|| error.to_string(), str::to_owned))
}

/// Returns a foreign text in a form that fits in one line.
fn repeat(value: &Value) -> String {
    let text = value.as_bytes().map(String::from_utf8_lossy).unwrap_or_default();
    let short: String = text.chars().take(REPEATED).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{rest}")
}
