//! Sources: logs that can be read again from a position, and that count exactly once.
//!
//! A source is a file, a partition of a topic, or a producer that numbers what it sends: an ordered list of
//! records, each at a position that grows. The store keeps, beside the counts, the position up to which it has
//! counted, and takes a chunk of records only if it begins exactly there. So it does not matter how often a
//! chunk is sent, where a reader is killed, or how many readers have the same source at once: each record
//! counts once. After a failover of the store the position has gone back with the counts, and the log is read
//! again from there. A reader learns of that by its next chunk, or, where its log is quiet, by a
//! [`check`](Source::check) now and then.
//!
//! What a record counts has to follow from the record alone. Each shard has a position of its own, so where there
//! are several, let no reader run out of [counters](crate::Builder::max_counters): a hit that one counts under its
//! name and another under `(other)` may lie in two shards, and count in both or in neither.
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
//! // The second reader has nothing left to read.
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
