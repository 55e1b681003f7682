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
    /// True if a database that does not respond should be checked later.
    pub(crate) checks_later: bool,
    /// Additional schema steps, used for testing upgrades.
    pub(crate) later_steps: &'static [&'static str],
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_connections: 8, creates_tables: false, checks_later: false, later_steps: &[] }
    }
}

/// The version that the first step creates. Programs before the first release have used versions 1 to 5 for
/// other tables. A number must never be used again: a program that knows it would take the tables for its own.
const FIRST_VERSION: u32 = 6;

/// The steps from an empty database to the current table version: the first step creates all tables with
/// version 6, and the following steps upgrade to the next version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    pub(super) steps: &'static [&'static str],
    pub(super) later_steps: &'static [&'static str],
}

impl Schema {
    /// Returns the current version.
    pub(super) fn version(&self) -> u32 {
        FIRST_VERSION - 1
            + u32::try_from(self.steps.len() + self.later_steps.len()).expect("there are few steps")
    }

    /// Returns the steps to upgrade from the stored version, or from an empty database. There are none for
    /// versions that can't be upgraded.
    pub(super) fn steps_after(&self, found: Option<u32>) -> impl Iterator<Item = &'static str> {
        let skipped = match found {
            None => 0,
            Some(found) => {
                found.checked_sub(FIRST_VERSION - 1).filter(|skipped| *skipped > 0).unwrap_or(u32::MAX)
            }
        };
        self.steps
            .iter()
            .chain(self.later_steps)
            .copied()
            .skip(usize::try_from(skipped).unwrap_or(usize::MAX))
    }

    /// Checks if this table version can be used.
    ///
    /// `found` is the stored version, or `None` if it does not exist.
    pub(super) fn check(&self, found: Option<&str>) -> Result<(), SchemaError> {
        let Some(found) = found else { return Err(SchemaError::Missing) };
        let Ok(found) = found.parse::<u32>() else { return Err(SchemaError::InvalidVersion) };
        let known = self.version();
        match found {
            found if found < FIRST_VERSION => Err(SchemaError::Unreleased { found, known }),
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
    /// The table version was used before the first release, and can't be upgraded.
    Unreleased { found: u32, known: u32 },
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
            Self::Unreleased { found, known } => write!(
                f,
                "the tables are older than the first release: they have version {found}, which can't be upgraded to version \
                 {known}; dump them with the program that wrote them, and restore the dump into an empty database"
            ),
            Self::Older { found, known } => write!(
                f,
                "the tables are older than this program: they have version {found}, but version {known} is required"
            ),
            Self::Newer { found, known } => write!(
                f,
                "the tables are newer than this program: they have version {found}, but this program only supports version \
                 {known}; update this program"
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

#[cfg(test)]
mod tests {
    use super::Schema;

    const SCHEMA: Schema = Schema { steps: &["6"], later_steps: &["7", "8"] };

    #[test]
    fn only_released_versions_are_upgraded() {
        let steps = |found| SCHEMA.steps_after(found).collect::<Vec<_>>();
        assert_eq!(steps(None), ["6", "7", "8"]);
        assert_eq!((steps(Some(6)), steps(Some(7)), steps(Some(8))), (vec!["7", "8"], vec!["8"], vec![]));
        for unreleased in 0..6 {
            assert!(steps(Some(unreleased)).is_empty(), "{unreleased}");
        }
    }

    #[test]
    fn the_message_says_which_side_is_older() {
        let refused = |found: &str| SCHEMA.check(Some(found)).expect_err(found).to_string();
        assert!(SCHEMA.check(Some("8")).is_ok());
        for found in ["1", "5"] {
            assert!(refused(found).starts_with("the tables are older than the first release"), "{found}");
        }
        assert!(refused("7").starts_with("the tables are older than this program"));
        assert!(refused("9").starts_with("the tables are newer than this program"));
    }
}
