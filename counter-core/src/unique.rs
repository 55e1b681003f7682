//! Counters of distinct items, either exact or estimated with a HyperLogLog.
//!
//! | counter | count | memory |
//! |---|---|---|
//! | [`SetUniqueCounter`] | exact, and items can be removed | grows with the items |
//! | [`AdaptiveUniqueCounter`] | exact up to a [`Threshold`], then an estimate | up to 12 KB above the threshold |
//! | [`HllUniqueCounter`] | an estimate with a standard error of 0.81 % | up to 12 KB |
//!
//! Each call goes to the store, and returns whether the item is new. Unlike visits, these calls are not
//! buffered. See the [guide](crate::guide::unique).

mod threshold;
mod distinct;
pub mod store;
mod counter;
mod set;
mod hll;
mod adaptive;
#[cfg(feature = "dump")]
pub mod dump;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "_sql")]
pub(crate) mod sql;

pub use adaptive::AdaptiveUniqueCounter;
pub use counter::{ExcludingCounter, UniqueCounter};
pub use distinct::{Contents, Distinct};
pub use hll::HllUniqueCounter;
pub use set::SetUniqueCounter;
pub use store::UniqueStore;
pub use threshold::{Threshold, ThresholdError};
