//! The way to a SQL database: connections, transactions, statements and the schema, for every family.
//!
//! A statement is a text with `?` for each value. A [`Dialect`] holds the differences between the databases, so that a
//! family is written once, and a [`Driver`](driver::Driver) sends statements to one of them. A list is sent as one
//! value, because the database spends most of the time of a statement with many values on parsing it.

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
