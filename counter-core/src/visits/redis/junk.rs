//! What lies in Redis in the place of ours and is something else.

use std::collections::HashSet;
use std::sync::Mutex;

use fred::types::Value;

use crate::redis::answer_of;
use crate::visits::Unreadable;
use crate::{Error, Timestamp};

/// Keys that are told of in the log.
const TOLD: usize = 1000;

/// Characters of a text of somebody else that are repeated.
const REPEATED: usize = 60;

/// What was found in one key while it was read.
#[derive(Debug, Default)]
pub(super) struct Junk {
    first: Option<String>,
    more: usize,
    buckets: Vec<Timestamp>,
}

/// The keys that the log has told of: each once, since pages are read every second.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<HashSet<String>>);

impl Junk {
    /// A field or member that is none of ours, and why.
    pub(super) fn add(&mut self, what: &Value, why: &str) {
        match self.first {
            None => self.first = Some(format!("{} {why}", repeat(what))),
            Some(_) => self.more += 1,
        }
    }

    /// A bucket whose count is no number.
    pub(super) fn add_bucket(&mut self, start: Timestamp, count: &Value) {
        self.add(count, &format!("in the field \"{start}\" is no count"));
        self.buckets.push(start);
    }

    /// All of it; nothing when nothing was found.
    pub(super) fn found(mut self, key: &str) -> Option<Unreadable> {
        let mut reason = self.first?;
        if self.more > 0 {
            reason += &format!(", and {} more", self.more);
        }
        self.buckets.sort_unstable();
        Some(Unreadable { buckets: self.buckets, ..Unreadable::new(key, reason) })
    }
}

impl Told {
    /// Tells the log of a key that cannot be read, unless it knows.
    pub(super) fn tell(&self, unreadable: &Unreadable) {
        let mut told = self.0.lock().expect("nothing panics under this lock");
        if told.len() < TOLD && !told.contains(&unreadable.key) {
            told.insert(unreadable.key.clone());
            let Unreadable { key, reason, .. } = unreadable;
            tracing::warn!(key, reason, "what is under this key cannot be read and is left out");
        }
    }
}

/// A whole key of which the server said that it is something else.
pub(super) fn wrong_key(key: &str, error: &Error) -> Unreadable {
    Unreadable::new(key, answer_of(error).map_or_else(|| error.to_string(), str::to_owned))
}

/// Text of somebody else, as it may stand in a line.
fn repeat(value: &Value) -> String {
    let text = value.as_bytes().map(String::from_utf8_lossy).unwrap_or_default();
    let short: String = text.chars().take(REPEATED).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{rest}")
}
