//! Access logs, whose lines count as the requests did that they tell of.
//!
//! A [`Parser`] reads the lines of a [`Format`], and a [`LogCounter`] decides about them as the layer decides about
//! requests: by the same rules, identity and facets, so that a request counts the same whichever way it came. An
//! [`Import`] counts what both make of a log into a [source](counter_core::source), which takes each line once. A
//! [`Follower`] finds what has grown of a log in files that are rotated. A [`LogIndex`] refuses logs whose lines were
//! counted before as a part of another log.
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
//! let mut import = Import::new(counters.sources(), Format::combined(), LogCounter::new(&layer));
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
//!     // A log may be quiet while its store goes back to an older state.
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
mod import;
pub mod record;
#[doc(hidden)]
pub mod internal;

pub use counter::{Decision, LogCounter};
pub use follow::fingerprint::Fingerprint;
pub use follow::{Follower, Grown, LogFile};
pub use format::detect::UnknownFormat;
pub use format::pattern::FormatError;
pub use format::{Format, MAX_LINE, Parser};
pub use import::{Import, ImportError};
pub use index::marks::Marks;
pub use index::{LogIndex, LogIndexError};
pub use line::Line;
pub use lines::{Lines, LogLine};
pub use malformed::{Malformed, MalformedLines};

/// The example of the README, which is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
