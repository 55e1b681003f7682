//! Documents: small contents, one for each name, which are replaced only by who has seen them.
//!
//! What few processes change now and then, and all have to agree on, is kept here and not in the process: the state of
//! alerts, and notes. A writer reads a document, and replaces it if it still has the version that was read; of several
//! that do so at once, one succeeds.
//!
//! ```
//! use counter_core::MemoryStore;
//! use counter_core::document::DocumentStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let seen = store.read("greeting").await?;
//! assert_eq!((seen.version, &*seen.content), (0, &b""[..]));
//! assert!(store.replace("greeting", seen.version, b"hello").await?.is_some());
//! assert!(store.replace("greeting", seen.version, b"too late").await?.is_none());
//! assert_eq!(store.read("greeting").await?.content, b"hello");
//! # Ok(())
//! # }
//! ```

mod store;
mod version;
pub(crate) mod change;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sql")]
pub(crate) mod sql;

pub use store::{Document, DocumentStore};
