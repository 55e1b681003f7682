use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::operations::Outcome;
use crate::unwind::Panicked;

/// Why something about entities was not done, or not for certain.
#[derive(Clone, Debug)]
pub struct EntityError {
    kind: EntityErrorKind,
    // Those who wait for the same query get the same error.
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`EntityError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntityErrorKind {
    /// The database cannot be reached: nothing was written.
    Unavailable,
    /// The database gave up in favour of somebody else (a deadlock, a lock that took too long): nothing
    /// was written, and trying again is safe.
    Busy,
    /// The database answered that it will not do it: nothing was written.
    Refused,
    /// The database did not answer a write, which may have been done or not.
    Unconfirmed,
    /// The count would leave the range of an `i64`: nothing was written.
    OutOfRange,
    /// The database holds something that does not belong there.
    Malformed,
    /// More entities than one call may ask for.
    TooMany {
        /// Entities asked for.
        asked: usize,
        /// Entities at most.
        most: usize,
    },
    /// The cache failed where there is no doing without it.
    Cache,
    /// Another instance recounts this kind at the moment.
    Elsewhere,
    /// Who was asked for the truth failed.
    Source,
    /// Who was asked for the truth did not answer for every entity, and an answer that is missing is no 0.
    Partial {
        /// Entities without an answer.
        missing: usize,
    },
    /// Something that was called panicked: the database, the cache, who was asked for the truth, or what
    /// writes the log.
    Panicked,
    /// The deadline of a shutdown passed with additions that the database has not acknowledged.
    Unflushed {
        /// How many.
        additions: u64,
    },
}

impl EntityError {
    /// An error of this kind.
    #[must_use]
    pub const fn new(kind: EntityErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into().into());
        self
    }

    /// What went wrong.
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
                f.write_str("the database gave way to somebody else: nothing was written")
            }
            EntityErrorKind::Refused => f.write_str("the database refused: nothing was written"),
            EntityErrorKind::Unconfirmed => {
                f.write_str("the database did not answer: it may have counted, or not")
            }
            EntityErrorKind::OutOfRange => {
                f.write_str("the count would be out of range: nothing was written")
            }
            EntityErrorKind::Malformed => f.write_str("the database holds something unexpected"),
            EntityErrorKind::TooMany { asked, most } => {
                write!(f, "{asked} entities are more than one call may ask for: {most}")
            }
            EntityErrorKind::Cache => f.write_str("the cache cannot be reached or refused"),
            EntityErrorKind::Elsewhere => f.write_str("another instance recounts this kind"),
            EntityErrorKind::Source => f.write_str("the true counts cannot be read"),
            EntityErrorKind::Partial { missing } => {
                write!(f, "the true counts of {missing} entities are missing")
            }
            EntityErrorKind::Panicked => f.write_str("something panicked"),
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
