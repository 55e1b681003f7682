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
    /// Another log with some of the same lines was admitted at the same time. Try again: the log will then be
    /// compared with that log.
    Concurrent,
    /// The index already contains the maximum number of logs for a day.
    TooManyLogs {
        /// The maximum number of logs per name and day.
        max: usize,
    },
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
            Self::Concurrent => f.write_str(
                "another log with some of the same lines was admitted at the same time; try again when that import is done",
            ),
            Self::TooManyLogs { max } => write!(
                f,
                "there are already {max} logs with this name for a day of the log, so it can't be compared with all of them; \
                 merge logs, or use a different name for logs of another server or site"
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
            Self::Counted { .. } | Self::SameBeginning | Self::Concurrent | Self::TooManyLogs { .. } => None,
        }
    }
}
