//! Foreign entries found in the keys of visits.

use std::collections::HashSet;
use std::sync::Mutex;

use fred::types::Value;

use crate::error::Error;
use crate::redis::error_message;
use crate::time::Timestamp;
use crate::visits::store::reading::{Extent, Unreadable};

/// Maximum number of keys to log.
const MAX_LOGGED_KEYS: usize = 1000;

/// Maximum number of characters to quote from a foreign value.
const MAX_QUOTED_CHARS: usize = 60;

/// The foreign entries found while reading a key.
#[derive(Debug, Default)]
pub(crate) struct Junk {
    first: Option<String>,
    more: usize,
    buckets: Vec<Timestamp>,
}

/// Keys that have already been logged. We only log a key once, because pages are read every second.
#[derive(Debug, Default)]
pub(crate) struct LoggedKeys(Mutex<HashSet<String>>);

impl Junk {
    /// Adds a foreign field or member.
    pub(crate) fn add(&mut self, value: &Value, reason: &str) {
        match self.first {
            None => self.first = Some(format!("{} {reason}", quote(value))),
            Some(_) => self.more += 1,
        }
    }

    /// Adds a bucket with an invalid count.
    pub(crate) fn add_bucket(&mut self, start: Timestamp, count: &Value) {
        self.add(count, &format!("in field \"{start}\" is not a count"));
        self.buckets.push(start);
    }

    /// Returns a description of the foreign entries in this key, or `None` if none were found.
    pub(crate) fn found(mut self, key: &str) -> Option<Unreadable> {
        let mut reason = self.first?;
        if self.more > 0 {
            reason += &format!(", and {} more", self.more);
        }
        self.buckets.sort_unstable();
        let extent = if self.buckets.is_empty() { Extent::Nothing } else { Extent::Buckets(self.buckets) };
        Some(Unreadable::new(key, reason).with_extent(extent))
    }
}

impl LoggedKeys {
    /// Logs a key that can't be read, unless it has been logged before.
    pub(crate) fn log_once(&self, unreadable: &Unreadable) {
        let is_new = {
            let mut logged_keys = self.0.lock().expect("the lock is never poisoned");
            logged_keys.len() < MAX_LOGGED_KEYS
                && !logged_keys.contains(&unreadable.key)
                && logged_keys.insert(unreadable.key.clone())
        };
        // This must not happen under the lock, because a subscriber could panic.
        if is_new {
            let Unreadable { key, reason, .. } = unreadable;
            tracing::warn!(key, reason, "ignoring unreadable data in this key");
        }
    }
}

/// Describes a key which was rejected by the server.
pub(crate) fn wrong_key(key: &str, error: &Error) -> Unreadable {
    Unreadable::new(key, error_message(error).map_or_else(|| error.to_string(), str::to_owned))
}

/// Formats a foreign value to fit on a line.
fn quote(value: &Value) -> String {
    let text = value.as_bytes().map(String::from_utf8_lossy).unwrap_or_default();
    let short: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{rest}")
}
