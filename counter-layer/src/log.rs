//! Access logs, whose lines count as the requests did that they tell of.
//!
//! A [`Parser`] reads the lines of a [`Format`], and a [`LogCounter`] decides about them as the layer decides about
//! requests: by the same rules, identity and facets, so that a request counts the same whichever way it came.

mod malformed;
mod clock;
mod escapes;
mod line;
mod fields;
mod pattern;
mod w3c;
mod json;
mod format;
mod detect;
mod counter;
mod lines;
mod fingerprint;
mod follow;

pub use counter::{Decision, LogCounter};
pub use detect::UnknownFormat;
pub use fingerprint::Fingerprint;
pub use follow::{Follower, Grown, LogFile};
pub use format::{Format, MAX_LINE, Parser};
pub use line::Line;
pub use lines::{Lines, LogLine};
pub use malformed::{Malformed, MalformedLines};
pub use pattern::FormatError;
