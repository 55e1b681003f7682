//! Counters of distinct items, either exact or estimated with a HyperLogLog.

mod threshold;
mod distinct;
mod store;
mod counter;
mod set;
mod hll;
mod adaptive;
#[cfg(feature = "dump")]
pub mod dump;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sql")]
pub(crate) mod sql;

pub use adaptive::AdaptiveUniqueCounter;
pub use counter::{ExcludingCounter, UniqueCounter};
pub use distinct::{Contents, Distinct};
pub use hll::HllUniqueCounter;
pub use set::SetUniqueCounter;
pub use store::{Included, UniqueKey, UniqueKind, UniqueList, UniquePart, UniqueStore};
pub use threshold::{Threshold, ThresholdError};
