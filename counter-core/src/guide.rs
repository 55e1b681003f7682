//! Guides: which counter to choose, and how to run it.
//!
//! # Which counter
//!
//! | what is counted | choose | what waits for the store | read on |
//! |---|---|---|---|
//! | visits of pages by time, and their unique visitors | [`Recorder`](crate::Recorder), or `AccessCounterLayer` of `counter-layer` | nothing | [the crate](crate) |
//! | distinct items: voters, readers, networks | [`SetUniqueCounter`](crate::unique::SetUniqueCounter), [`HllUniqueCounter`](crate::unique::HllUniqueCounter), [`AdaptiveUniqueCounter`](crate::unique::AdaptiveUniqueCounter) | every call | [`unique`] |
//! | up to so many in a minute, in a day, once | [`WindowCounters`](crate::window::WindowCounters), or `WindowLimitLayer` of `counter-layer` | every call | [`window`] |
//! | likes, followers, views of any number of posts | `Entities`: the database has the truth, the store has copies | every write, but for the views that `WriteBehind` folds | `entity`, with the feature of that name |
//!
//! All of them can share one store.
//!
//! # How to run it
//!
//! - `redis`: rights, eviction, TLS, Sentinel, clusters, and what is seen when things go wrong.
//! - `sql`, with the feature of a database: SQLite, PostgreSQL and MariaDB, which grid and interval, the schema.
//! - [`scale`]: how much memory and time a Redis needs.
//! - [`sources`]: counting from logs and topics.
//! - [`distributions`]: how long requests took, how large the responses were, and how they ended.
//! - The guide of `counter-alert`: rules, what is promised of their messages, and reports.
//! - `dump`, with the feature of that name: everything of one store in a file, and from it in another store.
//! - `archive`, with the feature of that name: hours and days for years, and audits.
//! - `spool`, with the feature of that name: a directory in which what waits survives the process.

#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sql")]
pub mod sql;
pub mod scale;
pub mod sources;
pub mod distributions;
#[cfg(feature = "dump")]
pub mod dump;
#[cfg(feature = "archive")]
pub mod archive;
#[cfg(feature = "spool")]
pub mod spool;
#[cfg(feature = "unique")]
pub mod unique;
#[cfg(feature = "window")]
pub mod window;
#[cfg(feature = "entity")]
pub mod entity;
