//! Small documents, stored by name, which are replaced via compare-and-swap.
//!
//! Used for shared state that changes rarely, but must be consistent across processes: the alert state and
//! notes. To change a document, a process reads it and then replaces it, if the version has not changed. With
//! concurrent writers, only a single replacement succeeds.
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
#[cfg(feature = "_sql")]
pub(crate) mod sql;

pub use store::{Document, DocumentStore};
