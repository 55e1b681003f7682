//! Guides: which counter to choose, and how to run it.
//!
//! # Which counter
//!
//! | to count | choose | calls to the store | read on |
//! |---|---|---|---|
//! | page visits over time, and unique visitors | [`Recorder`](crate::Recorder), or `AccessCounterLayer` from `counter-layer` | none; a batch is sent in the background | [the crate](crate) |
//! | distinct items, e.g. voters, readers, networks | [`SetUniqueCounter`](crate::unique::SetUniqueCounter), [`HllUniqueCounter`](crate::unique::HllUniqueCounter), [`AdaptiveUniqueCounter`](crate::unique::AdaptiveUniqueCounter) | one per operation | [`unique`] |
//! | up to a limit, e.g. per minute, per day, or only once | [`WindowCounters`](crate::window::WindowCounters), or `WindowLimitLayer` from `counter-layer` | one per operation | [`window`] |
//! | likes, followers or views of any number of posts | `Entities`: the database is authoritative, the store is a cache | one per write, except for views that are folded by `WriteBehind` | `entity`, with the feature of the same name |
//!
//! All of these can share the same store.
//!
//! # How to run it
//!
//! - `redis`: permissions, eviction, TLS, Sentinel and clusters, and the symptoms of failures.
//! - `sql`, with the feature of a database: SQLite, PostgreSQL and MariaDB, which grid and interval to use,
//!   the schema.
//! - [`evidence`]: how the claims are tested, and how to repeat the tests.
//! - [`scale`]: memory and time needed by Redis.
//! - [`sources`]: counting from logs and topics.
//! - [`distributions`]: response times, response sizes and statuses.
//! - `metrics`, with the feature of the same name: the metrics of a process, for Prometheus and others.
//! - The guide of `counter-alert`: rules, delivery guarantees and reports.
//! - `dump`, with the feature of the same name: backups, and how to move to another store.
//! - `archive`, with the feature of the same name: hours and days for years, and audits.
//! - `spool`, with the feature of the same name: a directory in which pending hits survive the process.

#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "_sql")]
pub mod sql;
pub mod evidence;
pub mod scale;
pub mod sources;
#[cfg(feature = "metrics")]
pub mod metrics;
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
