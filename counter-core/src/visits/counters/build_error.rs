use std::fmt;

use crate::visitor::SaltError;

/// An error from [`Builder::build`](crate::Builder::build).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of counters is not between 1 and 1,000,000.
    Counters(usize),
    /// The number of label places is not between 1 and 2,000.
    LabelPlaces(usize),
    /// The number of label pairs is not between 1 and 16,000.
    LabelPairs(usize),
    /// The interval with this name is shorter than 1 ms.
    Interval(&'static str),
    /// A visitor precision is coarser than the salt epoch, or not aligned with it, and
    /// [`stable_visitors`](crate::Builder::stable_visitors) is not set.
    Salt(SaltError),
    /// The spool directory can't be created, or it is not possible to create files in it.
    #[cfg(feature = "spool")]
    Spool {
        /// The spool directory.
        folder: std::path::PathBuf,
        /// The kind of the I/O error.
        kind: std::io::ErrorKind,
        /// The message of the I/O error.
        reason: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counters(counters) => {
                write!(f, "the number of counters must be between 1 and 1000000, not {counters}")
            }
            Self::LabelPlaces(places) => {
                write!(f, "the number of label places must be between 1 and 2000, not {places}")
            }
            Self::LabelPairs(pairs) => {
                write!(f, "the number of label pairs must be between 1 and 16000, not {pairs}")
            }
            Self::Interval(name) => write!(f, "{name} must be at least 1 ms"),
            Self::Salt(error) => error.fmt(f),
            #[cfg(feature = "spool")]
            Self::Spool { folder, reason, .. } => {
                write!(f, "cannot create the spool in {}: {reason}", folder.display())
            }
        }
    }
}

impl std::error::Error for BuildError {}

crate::log::debug::debug_in_full!(BuildError);
