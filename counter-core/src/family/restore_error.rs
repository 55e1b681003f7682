use std::fmt;

use super::store_id::StoreId;
use crate::error::Error;

/// An error from a restore, also of [unique counters](crate::unique::dump). Entries that were already added stay
/// in the store. If you repeat the restore from the first line, they will not be added again.
#[derive(Clone)]
#[non_exhaustive]
pub enum RestoreError {
    /// A line is malformed. The line was not added, and you can continue with a corrected line.
    Malformed {
        /// The expected line number, starting at 1. In a file with both, visits and unique counters are
        /// numbered separately.
        line: u64,
        /// The expected content.
        expected: String,
    },
    /// The dump is truncated: the final line is missing.
    Truncated {
        /// The number of lines read.
        line: u64,
    },
    /// The store lost data and returned to an earlier line of the dump. You need to repeat the restore from
    /// the first line.
    DataLost,
    /// The dump contains counts from this store, or counts that were already copied into it. These would be
    /// double-counted.
    OwnCounts {
        /// The id of this store.
        store: StoreId,
    },
    /// The store contains counts from another dump of the same store. Hits in both dumps would be
    /// double-counted.
    OtherDump {
        /// The id of the other dump.
        earlier: String,
    },
    /// The store did not acknowledge a batch. The next call will retry the batch, so no data is lost.
    Store(Error),
}

impl From<Error> for RestoreError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { line, expected } => write!(f, "line {line} of the dump: expected {expected}"),
            Self::Truncated { line } => write!(f, "the dump is truncated after line {line}"),
            Self::DataLost => {
                f.write_str("the store lost restored data; restart the restore from the first line")
            }
            Self::OwnCounts { store } => write!(
                f,
                "the dump contains counts of this store ({store}), which would be counted twice: restore it into an empty store or \
                 namespace; if this store lost all counts but still has the same id, remove the document `store` first"
            ),
            Self::OtherDump { earlier } => write!(
                f,
                "the store already contains counts from another dump of the same store ({earlier}), which would be counted twice: restore \
                 that dump again if its restore was interrupted, or restore this one into an empty store or namespace"
            ),
            Self::Store(_) => f.write_str("the store did not accept the dump"),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

crate::log::debug::debug_in_full!(RestoreError);
