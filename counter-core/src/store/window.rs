use std::sync::Arc;

use crate::{Error, Timestamp, VisitorId};

/// A place where windows are counted: shared by many, each window under a key of its own.
///
/// Cloning gives another handle on the same place. Every call is bounded in time by the store itself.
///
/// A count is there until the expiry of its key, by the store's clock; the one who makes the key decides on
/// that instant, and the first who counts under it sets it, once. What comes for a key that has expired is
/// answered and kept nowhere.
///
/// # Errors
///
/// Of kind [`Refused`](crate::ErrorKind::Refused) when it is known that nothing was counted, also after the
/// attempts that the store makes itself; of kind [`Unavailable`](crate::ErrorKind::Unavailable) when it may
/// have been counted, or not.
///
/// # Cancel safety
///
/// A call that is dropped may still count.
pub trait WindowStore: Clone + Send + Sync + 'static {
    /// Adds to some counters, at once where they are kept together, and answers for each, in their order,
    /// what it counts then.
    fn add(&self, additions: &[Addition]) -> impl Future<Output = Vec<Result<u64, Error>>> + Send;

    /// Adds 1 if this token was not there in this window: whether it was not, and what the counter counts
    /// then. Called again with the same token it adds nothing.
    fn add_once(
        &self,
        key: &WindowKey,
        token: VisitorId,
    ) -> impl Future<Output = Result<(bool, u64), Error>> + Send;

    /// Adds if the counter then counts no more than `limit`: whether it did, and what it counts now.
    fn add_within(
        &self,
        addition: &Addition,
        limit: u64,
    ) -> impl Future<Output = Result<(bool, u64), Error>> + Send;

    /// What these counters count, in their order; 0 for those that are not there.
    fn counts(&self, keys: &[WindowKey]) -> impl Future<Output = Result<Vec<u64>, Error>> + Send;
}

/// A counter in one window, as a store knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WindowKey {
    /// What is counted: a text of printable ASCII without braces or colons, of its own for each counter.
    pub counter: Arc<str>,
    /// What decides on the part of the store, where it is not the counter: those with the same text here lie
    /// together.
    pub group: Option<Arc<str>>,
    /// The width of the window in seconds.
    pub width: u32,
    /// Its first second.
    pub start: Timestamp,
    /// When the count may be forgotten.
    pub expiry: Timestamp,
}

/// How much to add to a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The counter.
    pub key: WindowKey,
    /// At least 1.
    pub amount: u64,
}

impl WindowKey {
    /// What decides on the part of the store.
    #[must_use]
    pub fn place(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.counter)
    }
}
