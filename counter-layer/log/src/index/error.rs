use std::{fmt, io};

use counter_core::{Error, Timestamp};

/// The reason why a log is rejected.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogIndexError {
    /// Lines of a day have already been counted as part of a different log.
    Counted {
        /// The earliest time of the lines in both logs.
        from: Timestamp,
        /// The latest time of the lines in both logs.
        to: Timestamp,
    },
    /// A different log starts with the same line, but continues differently.
    SameBeginning,
    /// The log can't be read.
    Log(io::Error),
    /// The store can't be read or written.
    Store(Error),
}

impl fmt::Display for LogIndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted { from, to } => write!(
                f,
                "lines between the Unix times {from} and {to} were already counted as part of another log with this name; \
                 remove these lines, or use a different name if the log is from another server or site"
            ),
            Self::SameBeginning => f.write_str(
                "the log starts with the same line as another log with this name, but continues differently; use a different name",
            ),
            Self::Log(_) => f.write_str("cannot read the log"),
            Self::Store(_) => f.write_str("cannot access the log index"),
        }
    }
}

impl std::error::Error for LogIndexError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Counted { .. } | Self::SameBeginning => None,
        }
    }
}
