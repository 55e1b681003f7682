//! The identity of a store, i.e. a record that the store keeps about itself.
//!
//! This record contains a random id, the grid, and the ids of all stores whose counts were restored or copied
//! into this store. As it is a document stored with the counts, both will be lost together: if a server loses
//! all of its data, it will get a new id. Dumps, spools and archives remember the id, and will reject a store
//! in which the contents would be counted twice.

mod stored_grid;
mod record;
mod known;

pub(crate) use known::KnownStore;
#[cfg(feature = "spool")]
pub(crate) use record::follows;
pub(crate) use record::{StoreRecord, StoreUse, peek, read, update};
pub use stored_grid::GridMismatch;
