/// The count of one field and the version of its row.
///
/// Every change of a row increments its version, so of two copies the one with the larger version is the
/// later one, in whichever order they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Versioned {
    /// The number of times that the row was written; 0 where there is none.
    pub version: u64,
    /// The count, which may be negative.
    pub value: i64,
}
