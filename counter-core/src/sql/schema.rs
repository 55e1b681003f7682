use std::error::Error as StdError;
use std::fmt;

use crate::error::Error;

/// Settings for a counter database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The maximum number of connections.
    pub(crate) max_connections: u32,
    /// True if missing tables should be created, and old tables should be upgraded.
    pub(crate) creates_tables: bool,
    /// Additional schema steps, used for testing upgrades.
    pub(crate) later_steps: &'static [&'static str],
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_connections: 8, creates_tables: false, later_steps: &[] }
    }
}

/// The steps from an empty database to the current table version: the first step creates all tables, and the
/// following steps upgrade to the next version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    pub(super) steps: &'static [&'static str],
    pub(super) later_steps: &'static [&'static str],
}

impl Schema {
    /// Returns the current version.
    pub(super) fn version(&self) -> u32 {
        u32::try_from(self.steps.len() + self.later_steps.len()).expect("there are few steps")
    }

    /// Returns the steps to upgrade from the given version.
    pub(super) fn steps_after(&self, version: u32) -> impl Iterator<Item = &'static str> {
        let skipped = usize::try_from(version).unwrap_or(usize::MAX);
        self.steps.iter().chain(self.later_steps).copied().skip(skipped)
    }

    /// Checks if this table version can be used.
    ///
    /// `found` is the stored version, or `None` if it does not exist.
    pub(super) fn check(&self, found: Option<&str>) -> Result<(), SchemaError> {
        let Some(found) = found else { return Err(SchemaError::Missing) };
        let Ok(found) = found.parse::<u32>() else { return Err(SchemaError::InvalidVersion) };
        let known = self.version();
        match found {
            found if found < known => Err(SchemaError::Older { found, known }),
            found if found > known => Err(SchemaError::Newer { found, known }),
            _ => Ok(()),
        }
    }
}

/// An error returned if the tables can't be used.
#[derive(Debug)]
pub(crate) enum SchemaError {
    /// The tables do not exist.
    Missing,
    /// The table version is older than the current version.
    Older { found: u32, known: u32 },
    /// The table version is newer than the current version.
    Newer { found: u32, known: u32 },
    /// The stored version is not a number.
    InvalidVersion,
    /// The database settings are not suitable, for the given reason.
    Unsuitable(String),
    /// The version can't be read.
    Unknown(Error),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the database has no counter tables"),
            Self::Older { found, known } => {
                write!(f, "the tables have version {found}, but version {known} is required")
            }
            Self::Newer { found, known } => write!(
                f,
                "the tables have version {found}, but this program only supports version {known}: update it"
            ),
            Self::InvalidVersion => f.write_str("the table version is not a number"),
            Self::Unsuitable(reason) => f.write_str(reason),
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
