//! Dumps: everything that a store of visits has as lines of JSON, and back into any store.
//!
//! A [`Dump`] reads a store and makes lines; a [`Restore`] takes these lines and adds what they hold to a store,
//! which may be another one, of another kind, with other shards, and may count already. Neither does I/O of its own
//! beyond the store, and both hold a bounded amount of memory: a page of what is read or sent, and a dump the names
//! of all counters, some 100 bytes each.
//!
//! A restore is exact. Each line has a number, a dump has a random id, and the store keeps beside the counts up to
//! which line of this dump it has added them, as it does for a [source](crate::source). So a restore that was killed
//! at any line is repeated from the beginning of the file and adds what is missing; one that is repeated for no
//! reason adds nothing, and neither do several at once.
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
//! [The guide](crate::guide::dump) has the format of the lines, how to move a site that goes on counting, and what
//! is in no dump.

mod line;
mod part;
mod dumping;
mod lane;
mod restore;

pub use dumping::Dump;
pub use line::Dumped;
pub use restore::{Restore, RestoreError, Restored};
