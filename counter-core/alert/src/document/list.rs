use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use counter_core::document::DocumentStore;
use counter_core::internal::change_document;
use counter_core::{Error, ErrorKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::version::DocumentVersion;

/// A list of items in a document, shared by all processes that use a store.
#[derive(Clone, Debug)]
pub(crate) struct DocumentList<T> {
    store: Arc<dyn DocumentStore>,
    /// The name of the document, and of the field with the items.
    name: &'static str,
    items: PhantomData<T>,
}

/// The content of the document.
#[derive(Debug, Serialize, Deserialize)]
struct Stored<T> {
    #[serde(default)]
    version: DocumentVersion<1>,
    /// The list of the document, by its name.
    #[serde(flatten)]
    lists: BTreeMap<String, Vec<T>>,
}

impl<T: Serialize + DeserializeOwned> DocumentList<T> {
    pub(crate) fn new(store: impl DocumentStore, name: &'static str) -> Self {
        Self::over(Arc::new(store), name)
    }

    pub(crate) fn over(store: Arc<dyn DocumentStore>, name: &'static str) -> Self {
        Self { store, name, items: PhantomData }
    }

    /// Returns all items, in insertion order.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    pub(crate) async fn read(&self) -> Result<Vec<T>, Error> {
        decode(self.name, &self.store.read(self.name).await?.content)
    }

    /// Changes the items, and retries if another process has changed them in the meantime. `change` returns an outcome, and
    /// whether the items need to be written.
    ///
    /// # Errors
    /// Fails if the store fails, or if other processes keep changing the items. The change might have been made in this case.
    pub(crate) async fn change<O>(
        &self,
        change: impl Fn(&mut Vec<T>) -> (O, bool) + Send,
    ) -> Result<O, Error> {
        let name = self.name;
        let changed = change_document(&*self.store, name, move |document| {
            let mut items = decode(name, &document?.content)?;
            let (outcome, is_changed) = change(&mut items);
            Ok((outcome, is_changed.then(|| encode(name, items))))
        });
        changed.await?.ok_or_else(|| {
            let cause = format!("too many concurrent changes to the {name}");
            Error::new(ErrorKind::Unavailable).caused_by(cause)
        })
    }
}

fn decode<T: DeserializeOwned>(name: &str, content: &[u8]) -> Result<Vec<T>, Error> {
    if content.is_empty() {
        return Ok(Vec::new());
    }
    let malformed = || Error::new(ErrorKind::Malformed { key: name.to_owned() });
    let mut stored: Stored<T> =
        serde_json::from_slice(content).map_err(|error| malformed().caused_by(error))?;
    stored.lists.remove(name).ok_or_else(malformed)
}

fn encode<T: Serialize>(name: &str, items: Vec<T>) -> Vec<u8> {
    let lists = BTreeMap::from([(name.to_owned(), items)]);
    serde_json::to_vec(&Stored { version: DocumentVersion, lists })
        .expect("numbers and strings can be serialized as JSON")
}
