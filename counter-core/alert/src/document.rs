//! Documents in JSON, in the [`DocumentStore`](counter_core::document::DocumentStore).

mod version;
mod list;

pub(crate) use list::DocumentList;
pub use version::DocumentVersion;
