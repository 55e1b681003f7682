//! Dumps of unique counters: all of a store as lines of JSON, and back into any store.
//!
//! A [`UniqueDump`] reads a store and makes lines; a [`UniqueRestore`] adds what they hold to a store, which may be another
//! one, of another kind, and may have counters already. Neither does I/O of its own beyond the store, and both hold a
//! bounded amount of memory: a page of what is read or sent.
//!
//! Adding an item that is there changes nothing, and neither does raising a register to where it is. So a restore may be
//! killed, repeated and doubled, and everything counts once.
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
//! // The second time adds nothing.
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
//! [The guide](crate::guide::dump) has the format of the lines, how they share a file with visits, and what they say
//! about people.

mod line;
mod dumping;
mod restore;

pub use dumping::UniqueDump;
pub use line::UniqueDumped;
pub use restore::{UniqueRestore, UniqueRestoreError, UniqueRestored};
