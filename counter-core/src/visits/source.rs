//! Sources: logs that can be reread from a position, with records that count exactly once.
//!
//! A source is a file, a topic partition, or a producer that numbers its records: a list of records ordered
//! by position. The store keeps the position of the counted records along with the counts, and only accepts a
//! chunk of records that starts exactly at this position. So a record will count once even if chunks are
//! resent, readers are killed, or multiple readers read the same source. If the store loses data in a
//! failover, the position is reset together with the counts, and readers will continue from there. This is
//! detected on the next chunk or, when the log is idle, by a periodic [`check`](Source::check).
//!
//! The hits of a record must depend only on the record. If the store has multiple shards, the position is
//! stored per shard, so all readers need enough [counters](crate::Builder::max_counters). If a hit is counted
//! by name in one reader but as `(other)` in another, it might belong to two shards, and count in both or in
//! neither.
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
mod history;
mod lane;
mod position;
mod reader;
mod sources;

#[cfg(feature = "archive")]
pub(super) use history::{FarPart, FarStore, LATENESS, Settling};
pub use ledger::{SourceHits, SourceLedger, SourceRecords, SourceStatus};
pub use name::{SourceName, SourceNameError};
pub use reader::{Commit, Source};
pub use sources::Sources;
#[cfg(feature = "dump")]
pub(super) use {lane::empty, position::positions};
