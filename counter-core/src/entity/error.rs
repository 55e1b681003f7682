use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::family::operations::Outcome;
use crate::log::unwind::Panicked;

/// An error from an entity operation.
#[derive(Clone)]
pub struct EntityError {
    kind: EntityErrorKind,
    // Shared by all callers that wait for the same query.
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kind of an [`EntityError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntityErrorKind {
    /// The database can't be reached. No data was written.
    Unavailable,
    /// Transaction conflict, such as a deadlock or lock timeout. No data was written, so you can safely
    /// retry.
    Busy,
    /// The database rejected the call. No data was written.
    Rejected,
    /// The database did not respond to a write, which may or may not have been executed.
    Unconfirmed,
    /// The count would overflow an `i64`. No data was written.
    OutOfRange,
    /// The database contains an unexpected value.
    Malformed,
    /// The call requests more entities than the maximum per call.
    TooMany {
        /// Requested number of entities.
        requested: usize,
        /// Maximum number of entities.
        max: usize,
    },
    /// The cache failed in an operation that depends on it.
    Cache,
    /// A different instance is currently recounting this kind.
    AlreadyRunning,
    /// The source of the recount failed.
    Source,
    /// The source of the recount did not return all entities. A missing entity is not treated as 0.
    Partial {
        /// Number of missing entities.
        missing: usize,
    },
    /// A panic in the database, the cache, the recount source or a log subscriber.
    Panicked,
    /// The shutdown deadline passed with unacknowledged additions.
    Unflushed {
        /// Number of unacknowledged additions.
        additions: u64,
    },
}

impl EntityError {
    /// Creates an error of this kind.
    #[must_use]
    pub const fn new(kind: EntityErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Sets the source of the error.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into().into());
        self
    }

    /// Replaces the error kind.
    #[cfg(feature = "_sql")]
    pub(super) fn with_kind(self, kind: EntityErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns the error kind.
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
            EntityErrorKind::Rejected => "refused",
            EntityErrorKind::Unconfirmed => "unconfirmed",
            EntityErrorKind::Malformed => "malformed",
            EntityErrorKind::OutOfRange | EntityErrorKind::TooMany { .. } => "invalid",
            EntityErrorKind::Cache => "cache",
            EntityErrorKind::AlreadyRunning => "elsewhere",
            EntityErrorKind::Source | EntityErrorKind::Partial { .. } => "source",
            EntityErrorKind::Panicked => "panicked",
            EntityErrorKind::Unflushed { .. } => "unflushed",
        }
    }
}

impl fmt::Display for EntityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            EntityErrorKind::Unavailable => f.write_str("the database can't be reached: nothing was written"),
            EntityErrorKind::Busy => f.write_str("transaction conflict: nothing was written"),
            EntityErrorKind::Rejected => f.write_str("the database rejected the call: nothing was written"),
            EntityErrorKind::Unconfirmed => {
                f.write_str("the database did not respond: the call may or may not be counted")
            }
            EntityErrorKind::OutOfRange => f.write_str("the count would overflow: nothing was written"),
            EntityErrorKind::Malformed => f.write_str("the database contains an unexpected value"),
            EntityErrorKind::TooMany { requested, max } => {
                write!(f, "{requested} entities exceed the maximum per call: {max}")
            }
            EntityErrorKind::Cache => f.write_str("the cache can't be reached or rejected the call"),
            EntityErrorKind::AlreadyRunning => f.write_str("another instance is recounting this kind"),
            EntityErrorKind::Source => f.write_str("the source of the recount failed"),
            EntityErrorKind::Partial { missing } => {
                write!(f, "the source of the recount did not return {missing} entities")
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
