use std::error::Error;
use std::fmt;

use counter_core::entity::EntityError;
use counter_core::unstable::sqlx::Error as SqlError;

/// Error of a forum operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum ForumError {
    /// The member, group, post or message does not exist.
    NotFound,
    /// The text is empty, or longer than 2,000 bytes.
    InvalidText,
    /// The database can't be read or written.
    Database(SqlError),
    /// A count can't be read. Or it can't be written, in which case nothing is written.
    Count(EntityError),
}

impl From<SqlError> for ForumError {
    fn from(error: SqlError) -> Self {
        match &error {
            SqlError::RowNotFound => Self::NotFound,
            SqlError::Database(answer) if answer.is_foreign_key_violation() => Self::NotFound,
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
            Self::NotFound => "member, group, post or message not found",
            Self::InvalidText => "a text must have 1 to 2,000 bytes",
            Self::Database(_) => "the forum database is unavailable",
            Self::Count(_) => "the forum counts are unavailable",
        })
    }
}

impl Error for ForumError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::Count(error) => Some(error),
            Self::NotFound | Self::InvalidText => None,
        }
    }
}
