use std::fmt;

use crate::family::future::Answer;
use crate::family::handle::for_handles;
use crate::time::Timestamp;

/// A store of documents.
///
/// The name of a document is a short text of the program, at most 128 bytes, and not one that comes from outside.
pub trait DocumentStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the document of this name; without one, an [empty](Document::default) one.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn read<'a>(&'a self, name: &'a str) -> Answer<'a, Document>;

    /// Returns the document of this name, without its content if it still has this version.
    ///
    /// For those who read a large document again and again.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn read_newer<'a>(&'a self, name: &'a str, version: u64) -> Answer<'a, Document>;

    /// Replaces the document of this name if it still has this version; returns the new version, or `None` if another process
    /// was first. Versions are random, so that no two contents have the same one, not even after a failover that lost a
    /// replacement.
    ///
    /// # Errors
    /// Fails when the store cannot do it now, or when it is not known whether it was done: read it again.
    fn replace<'a>(&'a self, name: &'a str, version: u64, content: &'a [u8]) -> Answer<'a, Option<u64>>;
}

/// A document as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// A random number that every replacement changes; 0 without a document.
    pub version: u64,
    /// The content; empty before the first.
    pub content: Vec<u8>,
    /// The time of the store's clock, if it has one of its own.
    pub now: Option<Timestamp>,
}

for_handles!(DocumentStore {
    fn read(name: &'a str) -> Answer<'a, Document>;
    fn read_newer(name: &'a str, version: u64) -> Answer<'a, Document>;
    fn replace(name: &'a str, version: u64, content: &'a [u8]) -> Answer<'a, Option<u64>>;
});
