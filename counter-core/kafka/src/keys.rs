use std::collections::BTreeMap;

use counter_core::Timestamp;
use counter_core::visitor::VisitorKey;

/// Visitor keys and ends of salt epochs, by epoch start. Starts and ends are in Unix seconds.
#[derive(Debug, Default)]
pub(crate) struct Keys(BTreeMap<u64, (u64, VisitorKey)>);

/// Maximum number of cached keys, which is enough for eleven years of daily epochs.
const MAX_EPOCHS: usize = 4096;

impl Keys {
    pub(crate) fn get(&self, at: Timestamp) -> Option<VisitorKey> {
        let (_, (end, key)) = self.0.range(..=at.as_unix()).next_back()?;
        (at.as_unix() < *end).then_some(*key)
    }

    pub(crate) fn insert(&mut self, epoch: std::ops::Range<Timestamp>, key: VisitorKey) {
        if self.0.len() >= MAX_EPOCHS {
            self.0.clear();
        }
        self.0.insert(epoch.start.as_unix(), (epoch.end.as_unix(), key));
    }
}
