//! Dumps: all visits in a store as lines of JSON, which can be restored into any store.
//!
//! A [`Dump`] reads a store and returns lines. A [`Restore`] takes these lines and adds the data to a store,
//! which may be of a different kind, use a different number of shards, and already contain counts. Both only
//! access the store, and memory use is bounded: a page of data, plus about 100 bytes per counter name for a
//! dump.
//!
//! A restore is exact. Lines are numbered, a dump has a random id, and the store keeps the dump position
//! along with the counts, just like for a [source](crate::source). If a restore is interrupted, you can
//! restart it from the beginning of the file: it will only add the missing data. Repeated or concurrent
//! restores of the same dump don't add anything twice.
//!
//! ```
//! use counter_core::{Counters, MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut old = Counters::builder(MemoryStore::new()).build()?;
//! let recorder = old.recorder();
//! recorder.record(recorder.counter("hits"), None);
//! old.flush().await?;
//!
//! let mut file = Vec::new();
//! let mut dump = old.stats().dump();
//! while let Some(line) = dump.next().await? {
//!     file.push(line);
//! }
//!
//! let new = Counters::builder(MemoryStore::new()).build()?;
//! // The second restore does not add anything.
//! for (lifetimes, already_restored) in [(1, 0), (0, 8)] {
//!     let mut restore = new.restore();
//!     for line in &file {
//!         restore.line(line.as_bytes()).await?;
//!     }
//!     let restored = restore.finish().await?;
//!     assert_eq!((restored.lifetimes, restored.already_restored), (lifetimes, already_restored));
//! }
//! assert_eq!(new.stats().lifetimes(&["hits".parse()?]).await?, [1]);
//! # Ok(())
//! # }
//! ```
//!
//! [The guide](crate::guide::dump) describes the line format, how to move a site without downtime, and the
//! data that is not included in a dump.

mod line;
mod part;
mod dumping;
mod lane;
mod restore;

pub use dumping::Dump;
pub use line::Dumped;
pub use restore::{Restore, Restored};

pub use crate::family::restore_error::RestoreError;
