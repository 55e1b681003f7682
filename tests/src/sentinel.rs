//! A real master and replica under a real Sentinel.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use crate::redis::{RedisServer, free_port, owned};
use crate::resp::Value;
use crate::until::block_until;

/// How long the three may take to come to an agreement.
const LIMIT: Duration = crate::until::LIMIT;

/// The name under which the sentinel knows the master.
const SERVICE: &str = "main";

/// A master, its replica, and one sentinel that decides alone which is which.
///
/// A master that does not answer for half a second is replaced. An old master that is back, or
/// was replaced on command, stays writable for about two seconds before the sentinel makes it a
/// replica: what it takes in that time is lost, as with any sentinel (by default it is eight).
/// All methods block.
#[derive(Debug)]
pub struct RedisSentinel {
    sentinel: RedisServer,
    servers: [RedisServer; 2],
}

impl RedisSentinel {
    /// Starts the three, and waits until the replica has all that the master has, and the
    /// sentinel knows both.
    ///
    /// # Panics
    ///
    /// When that takes more than two minutes.
    #[must_use]
    pub fn start() -> Self {
        let servers = [(); 2].map(|()| RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]));
        let port = servers[0].port().to_string();
        // By command: an argument would make it a replica again whenever it is started.
        servers[1].command(&["REPLICAOF", "127.0.0.1", &port]);
        // Before the sentinel, which asks the master for its replicas at once and then seldom.
        block_until("the replica is in step", LIMIT, || is_in_step(&servers[1]));
        let group = Self { sentinel: start_sentinel(&port), servers };
        group.until_replicated();
        group
    }

    /// The address as `fred` takes it: `redis-sentinel://127.0.0.1:PORT?sentinelServiceName=NAME`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis-sentinel://{}?sentinelServiceName={SERVICE}", self.sentinel.address())
    }

    /// The sentinel itself, which takes commands such as `SENTINEL MASTERS`.
    #[must_use]
    pub fn sentinel(&self) -> &RedisServer {
        &self.sentinel
    }

    /// Both servers, whichever is the master.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer; 2] {
        &self.servers
    }

    /// The address of the present master, as the sentinel says.
    #[must_use]
    pub fn master(&self) -> SocketAddr {
        self.master_server().address()
    }

    /// The server that is the master now, as the sentinel says.
    #[must_use]
    pub fn master_server(&self) -> &RedisServer {
        &self.servers[self.master_index()]
    }

    /// The server that is not the master now, whether it runs or not.
    #[must_use]
    pub fn other_server(&self) -> &RedisServer {
        &self.servers[1 - self.master_index()]
    }

    /// Makes the replica the master, while the old master runs, and waits until it is.
    ///
    /// # Panics
    ///
    /// When that takes more than two minutes.
    pub fn failover(&self) {
        let old = self.master();
        block_until("the master has changed", LIMIT, || {
            // In this order: one that has just ended has changed the master.
            let in_progress = self.facts("MASTER").contains("failover_in_progress");
            if self.master() != old {
                return true;
            }
            if !in_progress {
                // Now and then it finds no good replica, for it has not looked for long enough.
                self.sentinel.command(&["SENTINEL", "FAILOVER", SERVICE]);
            }
            false
        });
    }

    /// Ends the master at once, and waits until the replica has taken its place.
    ///
    /// # Panics
    ///
    /// When that takes more than two minutes, as when the other server is no replica.
    pub fn kill_master(&mut self) {
        let old = self.master_index();
        self.servers[old].kill();
        block_until("the master has changed", LIMIT, || self.master_index() != old);
    }

    /// Starts the server that is not the master, with nothing in it, and does not wait until the
    /// sentinel has made it a replica: see [`until_replicated`](Self::until_replicated).
    ///
    /// # Panics
    ///
    /// When it does not start within two minutes.
    pub fn restart_old(&mut self) {
        let old = 1 - self.master_index();
        self.servers[old].restart();
    }

    /// Waits until there is a replica again, in step with the master, and the sentinel knows it.
    ///
    /// # Panics
    ///
    /// When that takes more than two minutes.
    pub fn until_replicated(&self) {
        block_until("the replica is known and in step", LIMIT, || {
            let replicas = self.facts("REPLICAS");
            is_in_step(self.other_server())
                && replicas.contains("\"slave\"")
                && replicas.contains("\"master-link-status\" \"ok\"")
        });
    }

    fn master_index(&self) -> usize {
        let address = self.sentinel.strings(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        let port = address.get(1).expect("an address has a port");
        let index = self.servers.iter().position(|server| server.port().to_string() == *port);
        index.expect("the sentinel knows these servers alone")
    }

    /// What the sentinel knows about its `MASTER` or its `REPLICAS`: quoted words.
    fn facts(&self, about: &str) -> String {
        fn write(value: &Value, facts: &mut String) {
            match value {
                Value::Array(values) => values.iter().for_each(|value| write(value, facts)),
                value => facts.push_str(&format!("{:?} ", value.text().unwrap_or_default())),
            }
        }
        let mut facts = String::new();
        write(&self.sentinel.command(&["SENTINEL", about, SERVICE]), &mut facts);
        facts
    }
}

/// Starts a sentinel over the master at that port.
fn start_sentinel(master: &str) -> RedisServer {
    let sentinel = RedisServer::start_on(free_port, |folder, port| {
        // It wants a file, and writes there what it learns.
        let file = folder.join("sentinel.conf");
        let settings = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds {SERVICE} 500\n\
             sentinel failover-timeout {SERVICE} 2000\n"
        );
        fs::write(&file, settings).expect("our folder is writable");
        let file = file.to_str().expect("the folder for temporary files has a plain name").to_owned();
        let words = owned(&["--sentinel", "--bind", "127.0.0.1", "--port"]);
        [file].into_iter().chain(words).chain([port.to_string()]).collect()
    });
    // A server older than 7.0 does not know these, and takes its time: ten seconds at most.
    let periods = ["INFO-PERIOD", "200", "PING-PERIOD", "200", "PUBLISH-PERIOD", "500"];
    sentinel.command(&[["SENTINEL", "DEBUG"].as_slice(), &periods].concat());
    sentinel
}

/// Whether the server is a replica that has had all from its master, and hears more.
fn is_in_step(server: &RedisServer) -> bool {
    let Ok(facts) = server.try_command(&["INFO", "replication"]) else { return false };
    let facts = facts.text().expect("INFO answers text");
    facts.contains("role:slave\r\n") && facts.contains("master_link_status:up\r\n")
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, RedisSentinel, Value};
    use crate::until::block_until;

    /// Waits until the replica has this under the key.
    fn until_copied(group: &RedisSentinel, key: &str, value: &str) {
        let copied = || group.other_server().bytes(&["GET", key]) == Some(value.as_bytes().to_vec());
        block_until("the replica has it", LIMIT, copied);
    }

    #[test]
    fn a_failover_on_command_changes_the_roles_and_keeps_the_keys() {
        let group = RedisSentinel::start();
        assert_eq!(group.master(), group.servers()[0].address());
        assert!(group.url().contains(&group.sentinel().port().to_string()));
        group.master_server().command(&["SET", "key", "1"]);
        until_copied(&group, "key", "1");
        group.failover();
        assert_eq!(group.master(), group.servers()[1].address());
        assert_eq!(group.master_server().int(&["INCR", "key"]), 2);
        group.until_replicated();
        until_copied(&group, "key", "2");
        let refused = group.other_server().command(&["SET", "key", "3"]);
        assert!(matches!(&refused, Value::Error(text) if text.starts_with("READONLY")), "{refused:?}");
        group.failover();
        assert_eq!(group.master(), group.servers()[0].address());
    }

    #[test]
    fn a_master_that_dies_is_replaced_and_comes_back_as_a_replica() {
        let mut group = RedisSentinel::start();
        group.master_server().command(&["SET", "key", "1"]);
        until_copied(&group, "key", "1");
        group.kill_master();
        assert_eq!(group.master(), group.servers()[1].address());
        assert_eq!(group.master_server().int(&["INCR", "key"]), 2);
        group.restart_old();
        // It does not know yet that it has been replaced.
        assert_eq!(group.other_server().command(&["SET", "lost", "1"]), Value::Simple("OK".to_owned()));
        group.until_replicated();
        until_copied(&group, "key", "2");
        assert_eq!(group.other_server().bytes(&["GET", "lost"]), None);
    }
}
