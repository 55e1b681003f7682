use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::log::unwind::Panicked;
use crate::time::{Precision, Timestamp};

/// An error returned when writing to a store, or reading from it.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store can't be reached, or did not respond in time. The request may or may not have been executed.
    Unavailable,
    /// A local file, e.g. of a [spool](crate::guide::spool), can't be read or written. This error is not related to the
    /// store.
    Io,
    /// The store rejected the request.
    Rejected,
    /// The store did not confirm an increment. It may or may not have been counted, so a retry could count it
    /// again.
    Unconfirmed,
    /// According to the store clock, the window has expired or is too far in the future. The hit has not been
    /// counted.
    WindowClosed {
        /// The store clock.
        now: Timestamp,
    },
    /// The store contains unexpected data for this key.
    Malformed {
        /// The key.
        key: String,
    },
    /// A part of the data can't be read, such as a site of a [fleet](crate::fleet), and the answer can't state
    /// that it is too low.
    Incomplete {
        /// The missing part, e.g. `site us`.
        missing: String,
    },
    /// The precision is not retained.
    UnknownPrecision {
        /// The requested precision.
        requested: Precision,
        /// The available precisions, as a comma-separated list.
        retained: String,
    },
    /// A counter never has visitors, because it only counts hits.
    NoVisitors {
        /// The counter.
        counter: String,
    },
    /// The range is empty, or ends before it starts.
    EmptyRange,
    /// The query covers too many buckets.
    TooManyBuckets {
        /// The requested number of buckets.
        requested: u64,
        /// The maximum number of buckets.
        max: u64,
    },
    /// The query covers too many counters.
    TooManyCounters {
        /// The maximum number of counters.
        max: u64,
    },
    /// The call covers too many items, or the store already contains the maximum number.
    TooManyItems {
        /// The maximum number of items.
        max: u64,
    },
    /// The item is too long.
    ItemTooLong {
        /// The item length in bytes.
        bytes: usize,
        /// The maximum length in bytes.
        max: usize,
    },
    /// A store, a log subscriber or a metrics recorder panicked.
    Panicked,
    /// The shutdown deadline has passed, but the store has not acknowledged all hits.
    Unflushed {
        /// The number of hits, including hits that the store acknowledged but then lost.
        hits: u64,
    },
}

impl Error {
    /// Creates an error of this kind.
    #[must_use]
    pub const fn new(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Adds the source of the error.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Changes the kind of the error.
    #[cfg(feature = "window")]
    pub(crate) fn of_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }
}

impl From<Panicked> for Error {
    fn from(panicked: Panicked) -> Self {
        Self::new(ErrorKind::Panicked).caused_by(panicked)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Unavailable => f.write_str("the store is unavailable or did not respond in time"),
            ErrorKind::Io => f.write_str("local files cannot be read or written"),
            ErrorKind::Rejected => f.write_str("the store rejected the request"),
            ErrorKind::Unconfirmed => {
                f.write_str("the store did not confirm the increment: it may or may not have been counted")
            }
            ErrorKind::WindowClosed { now } => {
                write!(f, "the window is closed: the store time is {now}")
            }
            ErrorKind::Malformed { key } => {
                write!(f, "the store contains unexpected data for the key {key:?}")
            }
            ErrorKind::Incomplete { missing } => write!(f, "{missing} cannot be read"),
            ErrorKind::NoVisitors { counter } => {
                write!(f, "the counter {counter} has no visitors, because it only counts hits")
            }
            ErrorKind::UnknownPrecision { requested, retained } => {
                write!(f, "the precision {requested} is not retained; available precisions: {retained}")
            }
            ErrorKind::EmptyRange => f.write_str("the range is empty"),
            ErrorKind::TooManyBuckets { requested, max } => {
                write!(f, "the query covers {requested} buckets, but the maximum is {max}")
            }
            ErrorKind::TooManyCounters { max } => {
                write!(f, "the query covers more than {max} counters")
            }
            ErrorKind::TooManyItems { max } => {
                write!(f, "there are more than {max} items")
            }
            ErrorKind::ItemTooLong { bytes, max } => {
                write!(f, "the item has {bytes} bytes, but the maximum is {max}")
            }
            ErrorKind::Panicked => f.write_str("a call panicked"),
            ErrorKind::Unflushed { hits } => {
                write!(f, "{hits} hits were not acknowledged by the store before the deadline")
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

crate::log::debug::debug_in_full!(Error);
