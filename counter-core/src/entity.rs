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
#[cfg(feature = "sql")]
mod sql;

pub use cache::{EntityAudit, EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
pub use database::{EntityAddition, EntityApplyOutcome, EntityBatch, EntityDatabase, EntityTransactions};
pub use entities::{Entities, EntitiesBuilder, EntityCounts};
pub use error::{EntityError, EntityErrorKind};
pub use id::{EntityId, EntityIdError};
pub use kind::Entity;
#[doc(hidden)]
pub use kind::is_entity_name;
pub use reconcile::{Drift, Recount};
#[cfg(feature = "sql")]
pub use sql::SqlDatabase;
#[cfg(feature = "mariadb")]
pub use sql::mariadb::MariaDatabase;
#[cfg(feature = "postgres")]
pub use sql::postgres::PostgresDatabase;
#[cfg(feature = "sqlite")]
pub use sql::sqlite::SqliteDatabase;
#[cfg(feature = "sql")]
pub use sqlx;
pub use transaction::UncommittedCount;
pub use versioned::Versioned;
pub use write_behind::{AddError, EntityFlusher, EntityLedger, WriteBehind};

pub use crate::family::writer::WriterId;
