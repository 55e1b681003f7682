//! Access to SQL databases: connections, transactions, statements and the schema, for all counter families.
//!
//! Statements use `?` as the placeholder for values. A [`Dialect`] abstracts over the database differences so
//! that families are only written once, and a [`Driver`](driver::Driver) sends statements to the database.
//! Lists are sent as a single value, because otherwise the database would spend most of the time parsing the
//! statement.

mod schema;
mod failure;
pub(crate) mod dialect;
mod statement;
pub(crate) mod driver;
mod session;
mod pools;
mod tables;
mod database;
mod expired;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "mariadb")]
pub(crate) mod mariadb;

pub(crate) use database::Database;
pub(crate) use dialect::Dialect;
pub(crate) use driver::Row;
pub(crate) use failure::{Class, Failure};
pub(crate) use schema::{SchemaError, Settings};
pub(crate) use session::Session;
pub(crate) use statement::Value;
