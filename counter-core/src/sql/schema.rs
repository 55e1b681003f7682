use std::error::Error as StdError;
use std::fmt;

use crate::error::Error;

/// The settings of a database of counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The number of connections, at most.
    pub(crate) max_connections: u32,
    /// Whether tables are created that are missing, and tables of an older version are upgraded.
    pub(crate) creates_tables: bool,
    /// Steps to later versions of the schema, for tests of upgrades.
    pub(crate) later_steps: &'static [&'static str],
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_connections: 8, creates_tables: false, later_steps: &[] }
    }
}

/// The steps from an empty database to the current version of the tables: the first creates all of them, and each of
/// the others leads from one version to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    pub(super) steps: &'static [&'static str],
    pub(super) later_steps: &'static [&'static str],
}

impl Schema {
    /// Returns the version that the steps lead to.
    pub(super) fn version(&self) -> u32 {
        u32::try_from(self.steps.len() + self.later_steps.len()).expect("there are few steps")
    }

    /// Returns the steps that lead from a version to the current one.
    pub(super) fn steps_after(&self, version: u32) -> impl Iterator<Item = &'static str> {
        let skipped = usize::try_from(version).unwrap_or(usize::MAX);
        self.steps.iter().chain(self.later_steps).copied().skip(skipped)
    }

    /// Returns an error unless tables of this version can be used.
    ///
    /// `found` is the text of their entry, or `None` if there is none.
    pub(super) fn check(&self, found: Option<&str>) -> Result<(), SchemaError> {
        let Some(found) = found else { return Err(SchemaError::Missing) };
        let Ok(found) = found.parse::<u32>() else { return Err(SchemaError::Odd) };
        let known = self.version();
        match found {
            found if found < known => Err(SchemaError::Older { found, known }),
            found if found > known => Err(SchemaError::Newer { found, known }),
            _ => Ok(()),
        }
    }
}

/// An error of a database whose tables are not those that are needed.
#[derive(Debug)]
pub(crate) enum SchemaError {
    /// There are none.
    Missing,
    /// They are of an earlier version than the one that is known.
    Older { found: u32, known: u32 },
    /// They are of a later version.
    Newer { found: u32, known: u32 },
    /// The entry of the version is not a number.
    Odd,
    /// The database has unsuitable settings, for this reason.
    Unfit(String),
    /// It is not known.
    Unknown(Error),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the database has no tables for counters"),
            Self::Older { found, known } => {
                write!(f, "the tables are of version {found} and not yet of {known}")
            }
            Self::Newer { found, known } => write!(
                f,
                "the tables are of version {found}, and this program knows none after {known}: update it"
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
