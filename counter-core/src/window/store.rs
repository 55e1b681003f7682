use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::future::BoxFuture;
use crate::{Error, ErrorKind, Timestamp, VisitorId};

/// A place where windows are counted: shared by many, each window under a key of its own.
///
/// Cloning gives another handle on the same place. Every call is bounded in time by the store itself.
///
/// The store's clock decides, and not those of its callers. A count is there until the expiry of its key; the
/// first call that counts under the key sets that instant, once. What comes while the clock is not within
/// [`WindowKey::open`] is counted nowhere.
///
/// # Errors
///
/// Of kind [`WindowClosed`](crate::ErrorKind::WindowClosed) when the store's clock is not within
/// [`WindowKey::open`]; nothing was counted then.
/// Of kind [`Refused`](crate::ErrorKind::Refused) when it is known that nothing was counted, also after the
/// attempts that the store makes itself; of kind [`Unavailable`](crate::ErrorKind::Unavailable) when it may
/// have been counted, or not.
///
/// # Cancel safety
///
/// A call that is dropped may still count.
pub trait WindowStore: fmt::Debug + Send + Sync + 'static {
    /// Adds to some counters, at once where they are kept together, and answers for each, in their order,
    /// what it counts then.
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>>;

    /// Adds 1 if this token was not there in this window: whether it was not, and what the counter counts
    /// then. Called again with the same token it adds nothing.
    fn add_once<'a>(
        &'a self,
        key: &'a WindowKey,
        token: VisitorId,
    ) -> BoxFuture<'a, Result<(bool, u64), Error>>;

    /// Adds if the counter then counts no more than `limit`: whether it did, and what it counts now.
    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        limit: u64,
    ) -> BoxFuture<'a, Result<(bool, u64), Error>>;

    /// What these counters count, in their order; 0 for those that are not there.
    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> BoxFuture<'a, Result<Vec<u64>, Error>>;

    /// What the clock of the part of the store that has this key says; that of the process, unless the store has
    /// another.
    fn time<'a>(&'a self, key: &'a WindowKey) -> BoxFuture<'a, Result<Timestamp, Error>> {
        let _ = key;
        Box::pin(std::future::ready(Ok(Timestamp::now())))
    }
}

/// Whatever has a store of windows in it is one.
impl<T: AsRef<dyn WindowStore> + fmt::Debug + Send + Sync + 'static> WindowStore for T {
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        self.as_ref().add(additions)
    }

    fn add_once<'a>(
        &'a self,
        key: &'a WindowKey,
        token: VisitorId,
    ) -> BoxFuture<'a, Result<(bool, u64), Error>> {
        self.as_ref().add_once(key, token)
    }

    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        limit: u64,
    ) -> BoxFuture<'a, Result<(bool, u64), Error>> {
        self.as_ref().add_within(addition, limit)
    }

    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> BoxFuture<'a, Result<Vec<u64>, Error>> {
        self.as_ref().counts(keys)
    }

    fn time<'a>(&'a self, key: &'a WindowKey) -> BoxFuture<'a, Result<Timestamp, Error>> {
        self.as_ref().time(key)
    }
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
    /// Where the store's clock has to be for anything to be counted.
    pub open: Range<Timestamp>,
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
    /// The error for a store whose clock says `now`, if that is not within [`open`](Self::open).
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Error> {
        if self.open.contains(&now) { Ok(()) } else { Err(Error::new(ErrorKind::WindowClosed { now })) }
    }

    /// What decides on the part of the store.
    #[must_use]
    pub fn place(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.counter)
    }
}
