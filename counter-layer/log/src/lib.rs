//! Access logs and JSON records as sources of access counters.
//!
//! ```
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::AccessCounterLayer;
//! use counter_log::{Format, Import, Lines, LogCounter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let layer = AccessCounterLayer::new(counters.recorder());
//! let counter = LogCounter::new(&layer);
//! let mut import = Import::new(counters.sources(), Format::combined(), counter);
//!
//! let log = br#"192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 7 "-" "curl/8""#;
//! for _ in 0..2 {
//!     let open = |position| Ok(Some(Lines::new(&log[position as usize..], position).finished()));
//!     let position = import.count("web-1".parse()?, open).await?;
//!     assert_eq!(position, Some(log.len() as u64));
//! }
//! // The line was only counted once.
//! assert_eq!(counters.stats().lifetimes(&["hits".parse()?]).await?, [1]);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Parser`] reads lines of a [`Format`], and a [`LogCounter`] evaluates these with the same rules,
//! identity and facets as the layer. A request will thus produce the same hits, either in the layer or from a
//! log. An [`Import`] counts lines into a [source](counter_core::source), which ensures that lines count
//! exactly once. A [`LogIndex`] rejects a log if the lines have already been counted as part of a different
//! log.
//!
//! # Following a log
//!
//! A [`Follower`] finds new lines, even if files are rotated:
//!
//! ```no_run
//! use std::collections::HashMap;
//! use std::collections::hash_map::Entry;
//! use std::time::{Duration, Instant};
//!
//! use counter_core::source::Commit;
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::AccessCounterLayer;
//! use counter_log::{Follower, Format, Import, LogCounter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let layer = AccessCounterLayer::new(counters.recorder());
//! let counter = LogCounter::new(&layer);
//! let mut import = Import::new(counters.sources(), Format::combined(), counter);
//! let mut follower = Follower::new("/var/log/nginx/access.log");
//! let (mut sources, mut checked) = (HashMap::new(), Instant::now());
//! loop {
//!     for part in follower.poll()? {
//!         let source = match sources.entry(part.fingerprint()) {
//!             Entry::Occupied(source) => source.into_mut(),
//!             Entry::Vacant(place) => {
//!                 let name = format!("web-1:{}", part.fingerprint()).parse()?;
//!                 place.insert(counters.sources().open(name).await?)
//!             }
//!         };
//!         if import.count_into(source, |position| part.lines(position)).await.is_err() {
//!             follower.again(part.fingerprint());
//!         }
//!     }
//!     // The store may return to an older state, even if the log does not grow.
//!     if checked.elapsed() > Duration::from_secs(5) {
//!         sources.retain(|fingerprint, _| follower.has(*fingerprint));
//!         for (fingerprint, source) in &mut sources {
//!             if source.check().await? == Commit::Moved {
//!                 follower.again(*fingerprint);
//!             }
//!         }
//!         checked = Instant::now();
//!     }
//!     tokio::time::sleep(Duration::from_secs(1)).await;
//! }
//! # }
//! ```

mod malformed;
mod line;
mod format;
mod counter;
mod lines;
mod follow;
mod keys;
mod index;
mod report;
mod import;
pub mod record;
pub mod guide;
#[doc(hidden)]
pub mod internal;

pub use counter::{Decision, LogCounter};
pub use follow::fingerprint::Fingerprint;
pub use follow::{Follower, Grown, LogFile};
pub use format::detect::UnknownFormat;
pub use format::pattern::FormatError;
pub use format::zone::{LogTimeZone, UnknownTimeZone};
pub use format::{Format, MAX_LINE, Parser};
pub use import::{Import, ImportError};
pub use index::LogIndex;
pub use index::error::LogIndexError;
pub use index::marks::Marks;
pub use line::{Header, Line};
pub use lines::{Lines, LogLine};
pub use malformed::{Malformed, MalformedLines};
pub use report::{Hints, Reason, Report, Uncounted};

/// Tests the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
