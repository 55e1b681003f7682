//! The harness of the integration tests: real servers, a network that fails on command, programs
//! under test, a browser, and waiting that is bounded.
//!
//! Everything that is started here is ended when its value is dropped, and nothing but that: a
//! panic in a test leaves no server behind. What goes wrong in the harness itself panics, with
//! what the server or the program said.

mod child;
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
pub mod until;
pub mod noon;
pub mod browser;
pub mod anomalies;

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
pub use until::{LIMIT, until};
