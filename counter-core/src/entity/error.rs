use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::family::operations::Outcome;
use crate::log::unwind::Panicked;

/// An error of an operation on entities.
#[derive(Clone)]
pub struct EntityError {
    kind: EntityErrorKind,
    // All callers that wait for the same query get the same error.
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`EntityError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntityErrorKind {
    /// The database cannot be reached: nothing was written.
    Unavailable,
    /// The database gave way to another transaction (a deadlock, a lock that took too long): nothing was
    /// written, and trying again is safe.
    Busy,
    /// The database answered that it refuses: nothing was written.
    Refused,
    /// The database did not answer a write, which may or may not have been done.
    Unconfirmed,
    /// The count would leave the range of an `i64`: nothing was written.
    OutOfRange,
    /// The database holds something that does not belong there.
    Malformed,
    /// The call asked for more entities than one call may.
    TooMany {
        /// Number of entities asked for.
        asked: usize,
        /// Largest number of entities allowed.
        most: usize,
    },
    /// The cache failed in an operation that needs it.
    Cache,
    /// Another instance is recounting this kind at the moment.
    Elsewhere,
    /// The source of the true counts failed.
    Source,
    /// The source of the true counts left out some entities, and a missing answer is not taken for 0.
    Partial {
        /// Number of entities without an answer.
        missing: usize,
    },
    /// Code that was called panicked: the database, the cache, the source of the true counts, or a log
    /// subscriber.
    Panicked,
    /// The deadline of a shutdown passed with additions that the database has not acknowledged.
    Unflushed {
        /// Number of additions that were not acknowledged.
        additions: u64,
    },
}

impl EntityError {
    /// Creates an error of this kind.
    #[must_use]
    pub const fn new(kind: EntityErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Adds the cause of the error, as its source.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into().into());
        self
    }

    /// Replaces the kind of the error.
    #[cfg(feature = "sql")]
    pub(super) fn with_kind(self, kind: EntityErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> &EntityErrorKind {
        &self.kind
    }
}

impl From<Panicked> for EntityError {
    fn from(panicked: Panicked) -> Self {
        Self::new(EntityErrorKind::Panicked).caused_by(panicked)
    }
}

impl Outcome for EntityError {
    fn outcome(&self) -> &'static str {
        match self.kind {
            EntityErrorKind::Unavailable => "unavailable",
            EntityErrorKind::Busy => "busy",
            EntityErrorKind::Refused => "refused",
            EntityErrorKind::Unconfirmed => "unconfirmed",
            EntityErrorKind::Malformed => "malformed",
            EntityErrorKind::OutOfRange | EntityErrorKind::TooMany { .. } => "invalid",
            EntityErrorKind::Cache => "cache",
            EntityErrorKind::Elsewhere => "elsewhere",
            EntityErrorKind::Source | EntityErrorKind::Partial { .. } => "source",
            EntityErrorKind::Panicked => "panicked",
            EntityErrorKind::Unflushed { .. } => "unflushed",
        }
    }
}

impl fmt::Display for EntityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            EntityErrorKind::Unavailable => {
                f.write_str("the database cannot be reached: nothing was written")
            }
            EntityErrorKind::Busy => {
                f.write_str("the database gave way to another transaction: nothing was written")
            }
            EntityErrorKind::Refused => f.write_str("the database refused: nothing was written"),
            EntityErrorKind::Unconfirmed => {
                f.write_str("the database did not answer: it may or may not have counted")
            }
            EntityErrorKind::OutOfRange => {
                f.write_str("the count would be out of range: nothing was written")
            }
            EntityErrorKind::Malformed => f.write_str("the database holds something unexpected"),
            EntityErrorKind::TooMany { asked, most } => {
                write!(f, "{asked} entities are more than one call may ask for: {most}")
            }
            EntityErrorKind::Cache => f.write_str("the cache cannot be reached, or refused"),
            EntityErrorKind::Elsewhere => f.write_str("another instance is recounting this kind"),
            EntityErrorKind::Source => f.write_str("the true counts cannot be read"),
            EntityErrorKind::Partial { missing } => {
                write!(f, "the true counts of {missing} entities are missing")
            }
            EntityErrorKind::Panicked => f.write_str("a call panicked"),
            EntityErrorKind::Unflushed { additions } => {
                write!(f, "{additions} additions were not acknowledged by the database before the deadline")
            }
        }
    }
}

impl StdError for EntityError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

crate::log::debug::debug_in_full!(EntityError);
