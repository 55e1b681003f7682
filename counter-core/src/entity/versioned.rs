/// The count of a field and the row version.
///
/// Every change increments the row version. If there are two copies, the larger version is newer, independent
/// of the order in which they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Versioned {
    /// Number of writes to the row, or 0 if it doesn't exist.
    pub version: u64,
    /// Count, can be negative.
    pub value: i64,
}
