//! Interfaces with types of `fred` and `sqlx`, outside of the stability promise.
//!
//! A new version of these crates may change the types in this module without a new major version of this crate, e.g. after
//! `cargo update`. Everything else takes addresses and settings of this crate.

#[cfg(feature = "own-client")]
pub use fred;
#[cfg(feature = "_sql")]
pub use sqlx;

#[cfg(feature = "_sql")]
pub use crate::entity::sql::SqlDatabase;
#[cfg(feature = "mariadb")]
pub use crate::entity::sql::mariadb::MariaDatabase;
#[cfg(feature = "postgres")]
pub use crate::entity::sql::postgres::PostgresDatabase;
#[cfg(feature = "sqlite")]
pub use crate::entity::sql::sqlite::SqliteDatabase;
#[cfg(feature = "own-client")]
pub use crate::stores::redis::own_client::OwnClient;
#[cfg(feature = "_sql")]
pub use crate::stores::sql::builder::SqlOptions;
