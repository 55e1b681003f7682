//! Dumps of unique counters: exports all counters of a store to JSON lines, and restores the lines to any
//! store.
//!
//! A [`UniqueDump`] reads a store and produces lines; a [`UniqueRestore`] adds the contents to a store, which
//! can be of a different kind and can already have counters. Neither type does any I/O except for the store.
//! Memory is bounded by a page of items.
//!
//! Adding an existing item or raising a register to the current rank doesn't have any effect. This means that
//! you can interrupt, repeat or duplicate a restore, but the items will still be counted exactly once.
//!
//! ```
//! use counter_core::MemoryStore;
//! use counter_core::unique::dump::{UniqueDump, UniqueRestore};
//! use counter_core::unique::{Distinct, SetUniqueCounter, UniqueCounter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let old = MemoryStore::new();
//! SetUniqueCounter::new(old.clone(), "voters".parse()?).include_all(["ann", "bob"]).await?;
//!
//! let mut file = Vec::new();
//! let mut dump = UniqueDump::new(old);
//! while let Some(line) = dump.next().await? {
//!     file.push(line);
//! }
//!
//! let new = MemoryStore::new();
//! // The second restore adds no items.
//! for added in [2, 0] {
//!     let mut restore = UniqueRestore::new(new.clone());
//!     for line in &file {
//!         restore.line(line.as_bytes()).await?;
//!     }
//!     assert_eq!(restore.finish()?.added, added);
//! }
//! let voters = SetUniqueCounter::new(new, "voters".parse()?);
//! assert_eq!(voters.count().await?, Distinct::Exact(2));
//! # Ok(())
//! # }
//! ```
//!
//! The line format, sharing a file with visits, and the personal data in a dump are described in [the
//! guide](crate::guide::dump).

mod line;
mod dumping;
mod restore;

pub use dumping::UniqueDump;
pub use line::UniqueDumped;
pub use restore::{UniqueRestore, UniqueRestored};
