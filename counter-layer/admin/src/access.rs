//! Access to the numbers: the ways in, how often one may be tried, and how it ends.

pub(crate) mod headers;
mod origin;
mod throttle;
mod key;
mod revocation;
mod session;
#[cfg(feature = "dashboard")]
mod link;
mod secrets;
mod right;
mod way;
mod cookie;
mod page;
mod error;
#[allow(clippy::module_inception, reason = "the `Access` itself, beside what it is made of")]
mod access;
mod refusal;
mod login;
mod entry;

pub use access::Access;
#[cfg(all(feature = "alert", feature = "dashboard"))]
pub(crate) use entry::MaySilence;
#[cfg(feature = "dashboard")]
pub(crate) use entry::{MayNote, RevocationsUnknown, Signer};
pub use error::AccessError;
#[cfg(feature = "dashboard")]
pub(crate) use link::{SHARED, STYLE};
#[cfg(feature = "dashboard")]
pub(crate) use login::{LOGOUT, LOGOUT_EVERYWHERE, REVOKE_LINKS};
#[cfg(all(feature = "dashboard", feature = "note"))]
pub(crate) use page::below;
#[cfg(feature = "archive")]
pub(crate) use right::AUDIT;
#[cfg(feature = "hits")]
pub(crate) use right::HITS;
#[cfg(feature = "note")]
pub(crate) use right::NOTES;
#[cfg(all(feature = "dashboard", feature = "note"))]
pub(crate) use right::{NO_NOTE_FORM, NOTE_FORM};
#[cfg(feature = "alert")]
pub(crate) use right::{SILENCE, TEST};
#[cfg(all(feature = "alert", feature = "dashboard"))]
pub(crate) use right::{SILENCE_FORM, TEST_FORM};
#[cfg(feature = "dashboard")]
pub(crate) use session::LoggedIn;
