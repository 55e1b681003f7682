//! Notes on instants, such as deploys, to be shown in charts.
//!
//! If a chart drops at noon, you will want to know why. A script that deploys a service can add a note, and
//! all instances will show it.
//!
//! ```
//! use counter_alert::note::{Note, Notes};
//! use counter_core::{MemoryStore, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let notes = Notes::new(MemoryStore::new());
//! let noon = Timestamp::from_unix(1_795_262_400);
//!
//! let deploy = Note::new(noon, "Version 1.4")?.with_id("deploy-1.4")?;
//! assert!(notes.add(&deploy).await?.is_new);
//! assert!(!notes.add(&deploy).await?.is_new); // a script that repeats itself
//!
//! let found = notes.list(noon..noon.plus(60)).await?;
//! assert_eq!((found.len(), found[0].text()), (1, "Version 1.4"));
//! assert!(notes.remove("deploy-1.4").await?);
//! # Ok(())
//! # }
//! ```
//!
//! All notes are stored in a single [document](counter_core::document). If there are already
//! [1,000](Notes::MAX) notes, a new note will be rejected, and you need to remove old notes first.

#[allow(clippy::module_inception, reason = "the main type of this module")]
mod note;
mod notes;

pub use note::{Note, NoteError};
pub use notes::{Added, Notes};
