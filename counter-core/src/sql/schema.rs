use std::error::Error as StdError;
use std::fmt;

use crate::Error;

/// The version of the schema that this version of the crate works with.
pub(super) const VERSION: u32 = 5;

/// An error of a database whose tables are not those that are needed.
#[derive(Debug)]
pub(crate) enum SchemaError {
    /// There are none.
    Missing,
    /// They are of this earlier version.
    Older(u32),
    /// They are of this later version.
    Newer(u32),
    /// The entry of the version is no number.
    Odd,
    /// The database has settings that do not do, for this reason.
    Unfit(String),
    /// It is not known.
    Unknown(Error),
}

/// Returns an error unless tables of this version can be used.
///
/// `found` is the text of their entry, or `None` if there is none.
pub(super) fn check_version(found: Option<&str>) -> Result<(), SchemaError> {
    let Some(found) = found else { return Err(SchemaError::Missing) };
    match found.parse::<u32>() {
        Ok(VERSION) => Ok(()),
        Ok(found) if found < VERSION => Err(SchemaError::Older(found)),
        Ok(found) => Err(SchemaError::Newer(found)),
        Err(_) => Err(SchemaError::Odd),
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the database has no tables for counters"),
            Self::Older(found) => write!(f, "the tables are of version {found} and not yet of {VERSION}"),
            Self::Newer(found) => write!(
                f,
                "the tables are of version {found}, and this program knows none after {VERSION}: update it"
            ),
            Self::Odd => f.write_str("the tables have no version"),
            Self::Unfit(reason) => f.write_str(reason),
            Self::Unknown(_) => f.write_str("the tables cannot be read"),
        }
    }
}

impl StdError for SchemaError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unknown(error) => Some(error),
            _ => None,
        }
    }
}
