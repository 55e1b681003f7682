use std::error::Error as StdError;
use std::fmt;

use sqlx::Error as SqlError;

use super::schema::SchemaError;
use crate::error::{Error, ErrorKind};

/// Classification of an error returned by a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The transaction is in conflict with a concurrent transaction. It is safe to retry.
    Busy,
    /// A sum is out of range for an `i64`.
    OutOfRange,
    /// The database disk is full.
    Full,
    /// The server is shutting down or has failed. The transaction may already be committed.
    Unconfirmed,
    /// The table does not exist.
    NoTable,
    /// Any other error. The statement has not been executed.
    Rejected,
}

/// A failed statement.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The database returned an error of this class.
    Database(Class, SqlError),
    /// The database did not respond, or the response can't be decoded.
    NoResponse(SqlError),
    /// The database contains unexpected data.
    Malformed(Error),
    /// The table version does not match. The statement has not been executed.
    Schema(SchemaError),
    /// The database file has been removed or replaced.
    File(Box<dyn StdError + Send + Sync>),
}

/// An error returned if the database disk is full.
#[derive(Debug)]
pub(crate) struct DatabaseFull(SqlError);

impl Failure {
    /// Returns the class if the database returned an error.
    pub(crate) const fn class(&self) -> Option<Class> {
        match self {
            Self::Database(class, _) => Some(*class),
            Self::NoResponse(_) | Self::Malformed(_) | Self::Schema(_) | Self::File(_) => None,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Database(Class::Full, error) => {
                Self::new(ErrorKind::Rejected).caused_by(DatabaseFull(error))
            }
            Failure::Database(Class::Rejected | Class::NoTable | Class::OutOfRange, error) => {
                Self::new(ErrorKind::Rejected).caused_by(error)
            }
            Failure::Database(Class::Busy | Class::Unconfirmed, error) => {
                Self::new(ErrorKind::Unavailable).caused_by(error)
            }
            Failure::NoResponse(error) => match &error {
                SqlError::ColumnDecode { index, .. } => {
                    let key = format!("column {index}");
                    Self::new(ErrorKind::Malformed { key }).caused_by(error)
                }
                _ => Self::new(ErrorKind::Unavailable).caused_by(error),
            },
            Failure::Malformed(error) => error,
            Failure::Schema(error) => Self::new(ErrorKind::Rejected).caused_by(error),
            Failure::File(error) => Self::new(ErrorKind::Unavailable).caused_by(error),
        }
    }
}

impl fmt::Display for DatabaseFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the database disk is full")
    }
}

impl StdError for DatabaseFull {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}
