//! The identity of a store: a record that the store keeps about itself.
//!
//! The record has a random id, the grid of the counters, and the ids of the stores whose counts were restored or copied
//! into this one. It is a document beside the counts, so it is lost with them: a server that lost all of its data gets
//! another id. Dumps, spools and archives note the id, and refuse a store that would count their content twice.

mod id;
mod kept_grid;
mod record;
mod known;

pub use id::{StoreId, StoreIdError};
pub use kept_grid::GridMismatch;
pub(crate) use known::KnownStore;
#[cfg(feature = "spool")]
pub(crate) use record::follows;
pub(crate) use record::{Seen, StoreRecord, read, update};
