//! Access to the numbers: the ways in, and how often one may be tried.

pub(crate) mod headers;
mod origin;
mod throttle;
mod session;
#[cfg(feature = "dashboard")]
mod link;
mod cookie;
mod page;
#[allow(clippy::module_inception, reason = "the `Access` itself, beside what it is made of")]
mod access;
mod entry;

#[cfg(feature = "archive")]
pub(crate) use access::AUDIT;
#[cfg(feature = "hits")]
pub(crate) use access::HITS;
#[cfg(feature = "note")]
pub(crate) use access::NOTES;
pub use access::{Access, AccessError};
#[cfg(all(feature = "dashboard", feature = "note"))]
pub(crate) use access::{NO_NOTE_FORM, NOTE_FORM};
#[cfg(feature = "alert")]
pub(crate) use access::{SILENCE, TEST};
#[cfg(all(feature = "alert", feature = "dashboard"))]
pub(crate) use access::{SILENCE_FORM, TEST_FORM};
#[cfg(feature = "dashboard")]
pub(crate) use entry::MayNote;
#[cfg(all(feature = "alert", feature = "dashboard"))]
pub(crate) use entry::MaySilence;
#[cfg(feature = "dashboard")]
pub(crate) use link::{SHARED, STYLE};
#[cfg(all(feature = "dashboard", feature = "note"))]
pub(crate) use page::below;
#[cfg(feature = "dashboard")]
pub(crate) use session::LoggedIn;
