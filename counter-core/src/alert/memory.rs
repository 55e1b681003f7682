use std::sync::{Mutex, MutexGuard};

use super::{AlertDocument, AlertStore};
use crate::future::Answer;

/// The document in the memory of the process.
#[derive(Debug, Default)]
pub(crate) struct MemoryAlerts(Mutex<AlertDocument>);

impl MemoryAlerts {
    fn document(&self) -> MutexGuard<'_, AlertDocument> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl AlertStore for MemoryAlerts {
    fn read(&self) -> Answer<'_, AlertDocument> {
        Box::pin(async move { Ok(self.document().clone()) })
    }

    fn replace<'a>(&'a self, version: u64, content: &'a [u8]) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut document = self.document();
            let is_seen = document.version == version;
            if is_seen {
                document.version += 1;
                document.content = content.to_vec();
            }
            Ok(is_seen)
        })
    }
}
