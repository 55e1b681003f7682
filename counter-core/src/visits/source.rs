//! Sources: logs that can be read again from a position, and whose records count exactly once.
//!
//! A source is a file, a partition of a topic, or a producer that numbers its records: an ordered list of records at
//! increasing positions. The store keeps the position up to which it has counted next to the counts, and accepts a chunk of
//! records only if it starts exactly there. So each record counts once, even if chunks are sent several times, readers are
//! killed, or several readers read the same source. If the store loses data in a failover, its position goes back with the
//! counts, and the log is read again from there. A reader detects that with the next chunk or, if the log is quiet, with a
//! periodic [`check`](Source::check).
//!
//! The hits of a record must depend on nothing but the record. Each shard has its own position, so with several shards, all
//! readers need enough [counters](crate::Builder::max_counters). If one reader counts a hit under its name and another under
//! `(other)`, it may belong to two shards, and count in both or in neither.
//!
//! ```
//! use counter_core::source::Commit;
//! use counter_core::{Counters, MemoryStore, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = ["/", "/about", "/"];
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let recorder = counters.recorder();
//!
//! // The second reader finds no new records.
//! for _reader in 0..2 {
//!     let mut source = counters.sources().open("visits.log".parse()?).await?;
//!     for position in source.position()..3 {
//!         let page = recorder.counter(log[position as usize]);
//!         source.record(position..position + 1, Timestamp::now(), &[page.hit()]);
//!     }
//!     assert_eq!(source.commit().await?, Commit::Done);
//!     assert_eq!(source.ledger().records.recorded, 3);
//! }
//! assert_eq!(counters.stats().lifetimes(&["/".parse()?]).await?, [2]);
//! # Ok(())
//! # }
//! ```

mod name;
mod ledger;
mod lane;
mod position;
mod reader;
mod sources;

pub use ledger::{SourceHits, SourceLedger, SourceRecords, SourceStatus};
pub use name::{SourceName, SourceNameError};
pub use reader::{Commit, Source};
pub use sources::Sources;
#[cfg(feature = "dump")]
pub(super) use {lane::empty, position::positions};
