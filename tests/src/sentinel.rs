//! A Redis master and replica that are monitored by a Sentinel.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use crate::redis::{RedisServer, free_port, owned};
use crate::resp::Value;
use crate::until::block_until;

/// Upper bound for the time that the servers need to agree.
const LIMIT: Duration = crate::until::LIMIT;

/// Service name of the master.
const SERVICE: &str = "main";

/// A master, a replica, and a single sentinel that decides which is which.
///
/// The master is only replaced by [`failover`](Self::failover) and [`kill_master`](Self::kill_master), even if it is
/// slow. An old master that is restarted, or replaced via a command, accepts writes for about two more seconds before the
/// sentinel turns it into a replica. These writes are lost. This is true for any sentinel, but the default is eight
/// seconds. All methods block.
#[derive(Debug)]
pub struct RedisSentinel {
    sentinel: RedisServer,
    servers: [RedisServer; 2],
}

impl RedisSentinel {
    /// Starts the servers, and waits until the replica is in sync and the sentinel knows both servers.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes.
    #[must_use]
    pub fn start() -> Self {
        let servers = [(); 2].map(|()| RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]));
        let port = servers[0].port().to_string();
        // We use a command because an argument would turn the server into a replica on every restart.
        servers[1].command(&["REPLICAOF", "127.0.0.1", &port]);
        // We wait for this before we start the sentinel: it queries the replicas on startup, but only rarely
        // after that.
        block_until("the replica is in sync", LIMIT, || is_in_sync(&servers[1]));
        let group = Self { sentinel: start_sentinel(&port), servers };
        group.until_replicated();
        group
    }

    /// Returns the URL for `fred`: `redis-sentinel://127.0.0.1:PORT?sentinelServiceName=NAME`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis-sentinel://{}?sentinelServiceName={SERVICE}", self.sentinel.address())
    }

    /// Returns the sentinel, e.g. to send `SENTINEL MASTERS`.
    #[must_use]
    pub fn sentinel(&self) -> &RedisServer {
        &self.sentinel
    }

    /// Returns both servers. The order does not depend on the roles.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer; 2] {
        &self.servers
    }

    /// Returns the address of the current master as reported by the sentinel.
    #[must_use]
    pub fn master(&self) -> SocketAddr {
        self.master_server().address()
    }

    /// Returns the current master as reported by the sentinel.
    #[must_use]
    pub fn master_server(&self) -> &RedisServer {
        &self.servers[self.master_index()]
    }

    /// Returns the server that is not the current master. It might not be running.
    #[must_use]
    pub fn other_server(&self) -> &RedisServer {
        &self.servers[1 - self.master_index()]
    }

    /// Promotes the replica while the old master is running, and waits until this is done.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes.
    pub fn failover(&self) {
        let old = self.master();
        block_until("the master has changed", LIMIT, || {
            // This must be read first: if a failover has just finished, the master has already changed.
            let in_progress = self.info("MASTER").contains("failover_in_progress");
            if self.master() != old {
                return true;
            }
            if !in_progress {
                // The command can fail if the sentinel has not monitored the replica for long enough.
                self.sentinel.command(&["SENTINEL", "FAILOVER", SERVICE]);
            }
            false
        });
    }

    /// Kills the master, and waits until the replica is promoted.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes, e.g. because the other server is not a replica.
    pub fn kill_master(&mut self) {
        let old = self.master_index();
        self.replace_after(Duration::from_millis(500));
        self.servers[old].kill();
        block_until("the master has changed", LIMIT, || self.master_index() != old);
        self.replace_after(LIMIT);
    }

    /// Sets the time without a response after which the master is replaced.
    fn replace_after(&self, time: Duration) {
        let time = time.as_millis().to_string();
        self.sentinel.command(&["SENTINEL", "SET", SERVICE, "down-after-milliseconds", &time]);
    }

    /// Restarts the server that is not the master, with no data. This does not wait for the sentinel to turn
    /// it into a replica. See [`until_replicated`](Self::until_replicated).
    ///
    /// # Panics
    ///
    /// Panics if the server does not start within two minutes.
    pub fn restart_old(&mut self) {
        let old = 1 - self.master_index();
        self.servers[old].restart();
    }

    /// Waits for a replica that is known to the sentinel and has received all previous writes.
    ///
    /// # Panics
    ///
    /// Panics if this takes more than two minutes.
    pub fn until_replicated(&self) {
        // A message is replicated like a write. Without any, an offset of 0 would be enough.
        self.master_server().command(&["PUBLISH", "replicated", ""]);
        let written = replication(self.master_server(), "master_repl_offset:").expect("the master responds");
        block_until("the replica is known and in sync", LIMIT, || {
            let replicas = self.info("REPLICAS");
            is_in_sync(self.other_server())
                // The replica says that its link is up up to a second before the master sends it commands, which starts with
                // its first acknowledgment.
                && replication(self.master_server(), ",offset=").is_some_and(|received| received >= written)
                && replicas.contains("\"slave\"")
                && replicas.contains("\"master-link-status\" \"ok\"")
        });
    }

    fn master_index(&self) -> usize {
        let address = self.sentinel.strings(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        let port = address.get(1).expect("an address has a port");
        let index = self.servers.iter().position(|server| server.port().to_string() == *port);
        index.expect("the sentinel only monitors these servers")
    }

    /// Returns the information of the sentinel about the `MASTER` or the `REPLICAS` as quoted words.
    fn info(&self, about: &str) -> String {
        fn write(value: &Value, info: &mut String) {
            match value {
                Value::Array(values) => values.iter().for_each(|value| write(value, info)),
                value => info.push_str(&format!("{:?} ", value.text().unwrap_or_default())),
            }
        }
        let mut info = String::new();
        write(&self.sentinel.command(&["SENTINEL", about, SERVICE]), &mut info);
        info
    }
}

/// Starts a sentinel that monitors the master on this port.
fn start_sentinel(master: &str) -> RedisServer {
    let sentinel = RedisServer::start_on(free_port, |folder, port| {
        // A sentinel requires a configuration file, to which it also writes state.
        let file = folder.join("sentinel.conf");
        let settings = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds {SERVICE} {}\n\
             sentinel failover-timeout {SERVICE} 2000\n",
            LIMIT.as_millis()
        );
        fs::write(&file, settings).expect("our folder is writable");
        let file = file.to_str().expect("the folder for temporary files has a plain name").to_owned();
        let words = owned(&["--sentinel", "--bind", "127.0.0.1", "--port"]);
        [file].into_iter().chain(words).chain([port.to_string()]).collect()
    });
    // Versions before 7.0 do not support these settings and can take up to ten seconds.
    let periods = ["INFO-PERIOD", "200", "PING-PERIOD", "200", "PUBLISH-PERIOD", "500"];
    sentinel.command(&[["SENTINEL", "DEBUG"].as_slice(), &periods].concat());
    sentinel
}

/// Returns the number that follows this word in the server's information about replication, if any.
fn replication(server: &RedisServer, word: &str) -> Option<u64> {
    let info = server.try_command(&["INFO", "replication"]).ok()?.text()?;
    let (_, number) = info.split_once(word)?;
    number.split([',', '\r']).next()?.parse().ok()
}

/// Returns whether the server is a replica that is connected to the master and fully synchronized.
fn is_in_sync(server: &RedisServer) -> bool {
    let Ok(info) = server.try_command(&["INFO", "replication"]) else { return false };
    let info = info.text().expect("INFO replies with text");
    info.contains("role:slave\r\n") && info.contains("master_link_status:up\r\n")
}

#[cfg(test)]
mod tests {
    use super::{RedisSentinel, Value};

    /// Waits for the replica, which must have this value then.
    fn assert_copied(group: &RedisSentinel, key: &str, value: &str) {
        group.until_replicated();
        assert_eq!(group.other_server().bytes(&["GET", key]), Some(value.as_bytes().to_vec()));
    }

    #[test]
    fn a_manual_failover_swaps_roles_and_keeps_keys() {
        let group = RedisSentinel::start();
        assert_eq!(group.master(), group.servers()[0].address());
        assert!(group.url().contains(&group.sentinel().port().to_string()));
        group.master_server().command(&["SET", "key", "1"]);
        assert_copied(&group, "key", "1");
        group.failover();
        assert_eq!(group.master(), group.servers()[1].address());
        assert_eq!(group.master_server().int(&["INCR", "key"]), 2);
        assert_copied(&group, "key", "2");
        let rejected = group.other_server().command(&["SET", "key", "3"]);
        assert!(matches!(&rejected, Value::Error(text) if text.starts_with("READONLY")), "{rejected:?}");
        group.failover();
        assert_eq!(group.master(), group.servers()[0].address());
    }

    #[test]
    fn a_killed_master_is_replaced_and_returns_as_a_replica() {
        let mut group = RedisSentinel::start();
        group.master_server().command(&["SET", "key", "1"]);
        assert_copied(&group, "key", "1");
        group.kill_master();
        assert_eq!(group.master(), group.servers()[1].address());
        assert_eq!(group.master_server().int(&["INCR", "key"]), 2);
        group.restart_old();
        // The server does not know yet that it was replaced.
        assert_eq!(group.other_server().command(&["SET", "lost", "1"]), Value::Simple("OK".to_owned()));
        assert_copied(&group, "key", "2");
        assert_eq!(group.other_server().bytes(&["GET", "lost"]), None);
    }
}
