use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use super::store::{Document, DocumentStore};
use super::version::random;
use crate::family::future::StoreFuture;

/// The document store of a [`MemoryStore`](crate::MemoryStore): documents by name.
#[derive(Debug, Default)]
pub(crate) struct MemoryDocuments(Mutex<HashMap<String, Document>>);

impl MemoryDocuments {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Document>> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

impl DocumentStore for MemoryDocuments {
    fn read<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Document> {
        Box::pin(async move { Ok(self.all().get(name).cloned().unwrap_or_default()) })
    }

    fn read_newer<'a>(&'a self, name: &'a str, version: u64) -> StoreFuture<'a, Document> {
        Box::pin(async move {
            let all = self.all();
            let found = all.get(name).filter(|document| document.version != version);
            Ok(found.cloned().unwrap_or(Document { version, ..Document::default() }))
        })
    }

    fn replace<'a>(&'a self, name: &'a str, version: u64, content: &'a [u8]) -> StoreFuture<'a, Option<u64>> {
        Box::pin(async move {
            let mut all = self.all();
            let document = all.entry(name.to_owned()).or_default();
            if document.version != version {
                return Ok(None);
            }
            document.version = random();
            document.content = content.to_vec();
            Ok(Some(document.version))
        })
    }
}
