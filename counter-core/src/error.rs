use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::log::unwind::Panicked;
use crate::time::{Precision, Timestamp};

/// An error of writing to a store, or of reading from it.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached or did not answer in time; what was sent may have been done.
    Unavailable,
    /// The files of the [spool](crate::guide::spool) cannot be read or written. The store is not involved.
    SpoolFailed,
    /// The store answered that it refuses.
    Refused,
    /// The store did not confirm an increment, which it may have counted: repeating it may count it twice.
    Unconfirmed,
    /// The window is over and no longer kept, or too far in the future, by the store's clock: nothing was
    /// counted.
    WindowClosed {
        /// The time of the store's clock.
        now: Timestamp,
    },
    /// The store holds something under this key that does not belong there.
    Malformed {
        /// The key.
        key: String,
    },
    /// The precision is not among those that are kept.
    UnknownPrecision {
        /// The precision asked for.
        asked: Precision,
        /// List of the precisions that are kept, as text.
        kept: String,
    },
    /// The range ends at its start, or before it.
    EmptyRange,
    /// The read touches more buckets than one read may.
    TooManyBuckets {
        /// Number of buckets asked for.
        asked: u64,
        /// Largest number of buckets allowed.
        most: u64,
    },
    /// The read looks at more counters than one read may.
    TooManyCounters {
        /// Largest number of counters allowed.
        most: u64,
    },
    /// The call touches more items than one call may.
    TooManyItems {
        /// Largest number of items allowed.
        most: u64,
    },
    /// The store has as many notes as it may have.
    TooManyNotes {
        /// Largest number of notes allowed.
        max: usize,
    },
    /// The item is longer than an item may be.
    ItemTooLong {
        /// Length of the item, in bytes.
        bytes: usize,
        /// Largest length allowed, in bytes.
        most: usize,
    },
    /// Code that was called panicked: a store, a log subscriber, or a metrics recorder.
    Panicked,
    /// The deadline of a shutdown passed with hits that the store has not acknowledged.
    Unflushed {
        /// Number of hits, including those that the store had acknowledged and lost again.
        hits: u64,
    },
}

impl Error {
    /// Creates an error of this kind.
    #[must_use]
    pub const fn new(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Adds the cause of the error, as its source.
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
            ErrorKind::Unavailable => f.write_str("the store cannot be reached or does not answer in time"),
            ErrorKind::SpoolFailed => f.write_str("the files of the spool cannot be read or written"),
            ErrorKind::Refused => f.write_str("the store refused"),
            ErrorKind::Unconfirmed => {
                f.write_str("the store did not confirm the increment: it may have counted")
            }
            ErrorKind::WindowClosed { now } => {
                write!(f, "nothing is counted in this window at {now}, which is the time of the store")
            }
            ErrorKind::Malformed { key } => {
                write!(f, "the store holds something unexpected under the key {key:?}")
            }
            ErrorKind::UnknownPrecision { asked, kept } => {
                write!(f, "the precision {asked} is not kept; those that are: {kept}")
            }
            ErrorKind::EmptyRange => f.write_str("the range ends where it begins, or before"),
            ErrorKind::TooManyBuckets { asked, most } => {
                write!(f, "{asked} buckets are more than one read may touch: {most}")
            }
            ErrorKind::TooManyCounters { most } => {
                write!(f, "there are more counters than one read may look at: {most}")
            }
            ErrorKind::TooManyItems { most } => {
                write!(f, "there are more items than one call may touch: {most}")
            }
            ErrorKind::TooManyNotes { max } => {
                write!(f, "there are {max} notes, which is the limit: remove one first")
            }
            ErrorKind::ItemTooLong { bytes, most } => {
                write!(f, "an item has {bytes} bytes, more than {most}")
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
