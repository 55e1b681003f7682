//! Dumps: all visits of a store as lines of JSON, which can be restored into any store.
//!
//! A [`Dump`] reads a store and returns lines. A [`Restore`] takes these lines and adds their contents to a store, which may
//! be of another kind, have other shards, and already contain counts. Both access nothing but the store, and use a bounded
//! amount of memory: one page of data, and for a dump about 100 bytes per counter for the names.
//!
//! A restore is exact. Lines are numbered, a dump has a random id, and the store keeps the position in this dump next to the
//! counts, as for a [source](crate::source). If a restore is killed, repeat it from the start of the file: it adds only
//! what is missing. Repeated and concurrent restores of the same dump add nothing twice.
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
//! // The second time adds nothing.
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
//! [The guide](crate::guide::dump) describes the format of the lines, how to move a site without downtime, and what a dump
//! does not contain.

mod line;
mod part;
mod dumping;
mod lane;
mod restore;

pub use dumping::Dump;
pub use line::Dumped;
pub use restore::{Restore, RestoreError, Restored};
