//! Harness for the integration tests: servers, a network that fails on command, programs under test, a
//! browser, and bounded waiting.
//!
//! All servers and programs are stopped on drop, so a panic in a test does not leak a process. The harness
//! panics if it fails, and includes the output of the server or the program.

mod child;
mod patience;
pub mod until;
mod turn;
pub mod process;
pub mod proxy;
pub mod http;
pub mod redis;
pub mod tls;
pub mod cluster;
pub mod sentinel;
mod shared;
pub mod mariadb;
pub mod postgres;
pub mod nginx;
pub mod resp;
pub mod noon;
pub mod browser;
pub mod anomalies;
pub mod history;
pub mod powercut;
pub mod mmdb;

pub use cluster::RedisCluster;
pub use mariadb::MariaDb;
pub use nginx::Nginx;
pub use noon::noon_offset;
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::FaultProxy;
pub use redis::RedisServer;
pub use resp::Value;
pub use sentinel::RedisSentinel;
pub use tls::TlsRedis;
pub use until::{LIMIT, until, within};
