use std::fmt;

use counter_core::source::Sources;
use counter_core::time::Bucket;
use counter_core::visitor::VisitorKey;
use counter_core::{Error, Timestamp};

/// The keys of the visitors of the epochs that records were of, the latest last.
#[derive(Default)]
pub struct Keys(Vec<(Bucket, VisitorKey)>);

/// The number of epochs whose keys are known at once: records of an old log that is not in order are of some days.
const EPOCHS: usize = 16;

impl Keys {
    /// Returns the key of the visitors of the epoch in which `at` lies, if it is known.
    pub fn get(&self, at: Timestamp) -> Option<VisitorKey> {
        let is_of = |(epoch, _): &&(Bucket, VisitorKey)| (epoch.start..epoch.end()).contains(&at);
        self.0.iter().rev().find(is_of).map(|(_, key)| *key)
    }

    /// Adds the key of an epoch, in place of the oldest one if there are many.
    pub fn insert(&mut self, epoch: Bucket, key: VisitorKey) {
        if self.0.len() >= EPOCHS {
            self.0.remove(0);
        }
        self.0.push((epoch, key));
    }

    /// Returns the key of the visitors of the epoch in which `at` lies.
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
