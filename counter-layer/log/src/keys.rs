use std::fmt;

use counter_core::source::Sources;
use counter_core::time::Bucket;
use counter_core::visitor::VisitorKey;
use counter_core::{Error, Timestamp};

/// A cache of visitor keys of recent epochs, in insertion order.
#[derive(Default)]
pub struct Keys(Vec<(Bucket, VisitorKey)>);

/// Maximum number of cached keys. If an old log is not sorted, consecutive records might be from different
/// days.
const MAX_KEYS: usize = 16;

impl Keys {
    /// Returns the cached visitor key of the epoch that contains `at`.
    pub fn get(&self, at: Timestamp) -> Option<VisitorKey> {
        let is_of = |(epoch, _): &&(Bucket, VisitorKey)| (epoch.start..epoch.end()).contains(&at);
        self.0.iter().rev().find(is_of).map(|(_, key)| *key)
    }

    /// Adds the key of an epoch. If the cache is full, this removes the oldest key.
    pub fn insert(&mut self, epoch: Bucket, key: VisitorKey) {
        if self.0.len() >= MAX_KEYS {
            self.0.remove(0);
        }
        self.0.push((epoch, key));
    }

    /// Returns the visitor key of the epoch that contains `at`.
    pub(crate) async fn of(&mut self, sources: &Sources, at: Timestamp) -> Result<VisitorKey, Error> {
        if let Some(key) = self.get(at) {
            return Ok(key);
        }
        let (key, epoch) = sources.visitor_key(at).await?;
        self.insert(epoch, key);
        Ok(key)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(epoch, _)| epoch)).finish()
    }
}
