//! The way to a SQL database: connections, transactions, statements and the schema, for every family.
//!
//! A statement is a text with `?` for each value. What the databases write differently is in their
//! [`Dialect`], so that a family is written once. Lists travel as one value, since the time of a statement
//! with many values goes into taking it apart.

mod schema;
mod failure;
mod dialect;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "mariadb")]
pub(crate) mod mariadb;
mod statement;
mod session;
mod pools;
mod tables;
mod database;
mod expired;

pub(crate) use database::Database;
pub(crate) use dialect::Dialect;
pub(crate) use failure::{Class, Failure};
pub(crate) use schema::SchemaError;
pub(crate) use session::{Options, Row, Session};
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::file::{FileError, OpenedFile, PathState};
pub(crate) use statement::Value;
