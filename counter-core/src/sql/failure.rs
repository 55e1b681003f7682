use std::error::Error as StdError;
use std::fmt;

use sqlx::Error as SqlError;

use super::schema::SchemaError;
use crate::error::{Error, ErrorKind};

/// The meaning of an error that a database returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The transaction conflicted with another one, and a retry is safe.
    Busy,
    /// A sum leaves the range of an `i64`.
    OutOfRange,
    /// The disk of the database is full.
    Full,
    /// The server is shutting down or has failed, perhaps after the commit.
    Unconfirmed,
    /// The table does not exist.
    NoTable,
    /// Anything else: nothing was done.
    Refused,
}

/// A failure of a statement.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The database returned an error of this class.
    Answer(Class, SqlError),
    /// The database did not answer, or its answer could not be read.
    Silence(SqlError),
    /// The database contains unexpected data.
    Malformed(Error),
    /// The tables are not of this version: nothing was done.
    Schema(SchemaError),
    /// The file of the database is not the one that was opened.
    File(Box<dyn StdError + Send + Sync>),
}

/// An error of a database whose disk is full.
#[derive(Debug)]
pub(crate) struct DatabaseFull(SqlError);

impl Failure {
    /// Returns what the database answered.
    pub(crate) const fn class(&self) -> Option<Class> {
        match self {
            Self::Answer(class, _) => Some(*class),
            Self::Silence(_) | Self::Malformed(_) | Self::Schema(_) | Self::File(_) => None,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Answer(Class::Full, error) => {
                Self::new(ErrorKind::Refused).caused_by(DatabaseFull(error))
            }
            Failure::Answer(Class::Refused | Class::NoTable | Class::OutOfRange, error) => {
                Self::new(ErrorKind::Refused).caused_by(error)
            }
            Failure::Answer(Class::Busy | Class::Unconfirmed, error) => {
                Self::new(ErrorKind::Unavailable).caused_by(error)
            }
            Failure::Silence(error) => match &error {
                SqlError::ColumnDecode { index, .. } => {
                    let key = format!("column {index}");
                    Self::new(ErrorKind::Malformed { key }).caused_by(error)
                }
                _ => Self::new(ErrorKind::Unavailable).caused_by(error),
            },
            Failure::Malformed(error) => error,
            Failure::Schema(error) => Self::new(ErrorKind::Refused).caused_by(error),
            Failure::File(error) => Self::new(ErrorKind::Unavailable).caused_by(error),
        }
    }
}

impl fmt::Display for DatabaseFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the disk of the database is full")
    }
}

impl StdError for DatabaseFull {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}
