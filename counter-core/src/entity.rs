//! Counts of entities like posts, stored in a database and cached.
//!
//! [`entity!`](crate::entity!) defines the counted fields, such as likes and views. [`Entities`] increments
//! them, also within a transaction of the application, and reads them from the cache. Use [`WriteBehind`] for
//! fields that change often, and [`Entities::reconcile`] to compare the counts to other tables. See the
//! [guide](crate::guide::entity).

mod id;
mod kind;
mod jitter;
mod versioned;
pub(crate) mod cache;
mod error;
mod database;
mod entities;
mod write;
mod transaction;
mod read;
mod write_behind;
mod reconcile;
#[cfg(feature = "_sql")]
pub(crate) mod sql;

pub use cache::EntityCache;
pub use database::{EntityDatabase, EntityTransactions};
pub use entities::{Entities, EntitiesBuilder, EntityCounts};
pub use error::{EntityError, EntityErrorKind};
pub use id::{EntityId, EntityIdError};
pub use kind::Entity;
#[doc(hidden)]
pub use kind::is_entity_name;
pub use reconcile::{Drift, Recount};
pub use transaction::UncommittedCount;
pub use versioned::Versioned;
pub use write_behind::{AddError, EntityFlusher, EntityLedger, WriteBehind};

pub use crate::family::writer::WriterId;

/// The interface for authors of caches and databases.
pub mod store {
    pub use super::cache::{EntityAudit, EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
    pub use super::database::{
        EntityAddition, EntityApplyOutcome, EntityBatch, EntityDatabase, EntityTransactions,
    };
}
