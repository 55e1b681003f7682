use std::error::Error;
use std::fmt;

use counter_core::entity::EntityError;
use counter_core::entity::sqlx::Error as SqlError;

/// Error of a forum operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum ForumError {
    /// The member, group, post or message does not exist.
    Nobody,
    /// The text is empty, or longer than 2,000 bytes.
    NoText,
    /// The database can't be read or written.
    Database(SqlError),
    /// A count can't be read. Or it can't be written, in which case nothing is written.
    Count(EntityError),
}

impl From<SqlError> for ForumError {
    fn from(error: SqlError) -> Self {
        match &error {
            SqlError::RowNotFound => Self::Nobody,
            SqlError::Database(answer) if answer.is_foreign_key_violation() => Self::Nobody,
            _ => Self::Database(error),
        }
    }
}

impl From<EntityError> for ForumError {
    fn from(error: EntityError) -> Self {
        Self::Count(error)
    }
}

impl fmt::Display for ForumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "there is no such member, group, post or message",
            Self::NoText => "a text has 1 to 2,000 bytes",
            Self::Database(_) => "the database of the forum cannot be used",
            Self::Count(_) => "the counts of the forum cannot be read or written",
        })
    }
}

impl Error for ForumError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::Count(error) => Some(error),
            Self::Nobody | Self::NoText => None,
        }
    }
}
