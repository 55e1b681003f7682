use std::fmt;

use crate::Timestamp;
use crate::future::Answer;
use crate::handle::for_handles;

/// A place for the state of alerts: one document, which is replaced only by who has seen it.
pub trait AlertStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the document.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn read(&self) -> Answer<'_, AlertDocument>;

    /// Replaces the document if it still has this version, that of an [empty one](AlertDocument::default) being 0;
    /// returns whether it had. The new version is one more.
    ///
    /// # Errors
    /// Fails when the store cannot do it now, or when it is not known whether it was done: read it again.
    fn replace<'a>(&'a self, version: u64, content: &'a [u8]) -> Answer<'a, bool>;
}

/// The document that a store has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlertDocument {
    /// The number of times that it was replaced.
    pub version: u64,
    /// The content; empty before the first.
    pub content: Vec<u8>,
    /// The time of the store's clock, if it has one of its own.
    pub now: Option<Timestamp>,
}

for_handles!(AlertStore {
    fn read() -> Answer<'a, AlertDocument>;
    fn replace(version: u64, content: &'a [u8]) -> Answer<'a, bool>;
});
