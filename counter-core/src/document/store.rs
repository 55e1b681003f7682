use std::fmt;

use crate::family::future::StoreFuture;
use crate::family::handle::for_handles;
use crate::time::Timestamp;

/// A document store.
///
/// Document names must be short constants of at most 128 bytes. They should not be derived from user input.
pub trait DocumentStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the document with this name, or an [empty](Document::default) document if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn read<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Document>;

    /// Returns the document with this name, but without the content if the version has not changed.
    ///
    /// This can be used to poll large documents.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn read_newer<'a>(&'a self, name: &'a str, version: u64) -> StoreFuture<'a, Document>;

    /// Replaces the document with this name if the version has not changed. Returns the new version, or
    /// `None` if it has been replaced by another process.
    ///
    /// Versions are random, so that they are never reused for different contents, even if a failover loses a
    /// replacement.
    ///
    /// # Errors
    /// Returns an error if the document can't be replaced, or if the outcome is unknown. In this case you
    /// should read the document again.
    fn replace<'a>(&'a self, name: &'a str, version: u64, content: &'a [u8]) -> StoreFuture<'a, Option<u64>>;
}

/// A document, as read from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// A random number that changes with every replacement, or 0 if the document does not exist.
    pub version: u64,
    /// The content. Empty if the document does not exist.
    pub content: Vec<u8>,
    /// The current time, if the store has its own clock.
    pub now: Option<Timestamp>,
}

for_handles!(DocumentStore {
    fn read(name: &'a str) -> StoreFuture<'a, Document>;
    fn read_newer(name: &'a str, version: u64) -> StoreFuture<'a, Document>;
    fn replace(name: &'a str, version: u64, content: &'a [u8]) -> StoreFuture<'a, Option<u64>>;
});
