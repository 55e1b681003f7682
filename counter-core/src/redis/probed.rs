use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::server::RedisServer;

/// The latest server probe, including the warnings that have been logged.
#[derive(Debug, Default)]
pub(super) struct Probed(Mutex<Option<Probe>>);

#[derive(Debug)]
struct Probe {
    at: Instant,
    /// The number of connections that the store had made when the server was probed.
    connections: u64,
    server: RedisServer,
    probing: Probing,
}

/// What a probe has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probing {
    /// Only the settings of the server.
    Settings,
    /// Also which commands are refused.
    Commands,
}

/// A probe is valid for this time if the connection does not change. It expires because settings can be
/// changed on a running server.
const PROBE_TTL: Duration = Duration::from_secs(600);
/// A probe is valid for this time if the server refused a command, so that we soon notice that it is permitted.
const REFUSED_TTL: Duration = Duration::from_secs(10);

impl Probed {
    /// Returns `true` if the probe has expired, or if it belongs to an earlier connection: the new connection
    /// might lead to a different server.
    pub(super) fn is_due(&self, connections: u64) -> bool {
        let last = self.lock();
        last.as_ref().is_none_or(|last| {
            let ttl = if last.server.refused.is_empty() { PROBE_TTL } else { REFUSED_TTL };
            last.connections != connections || last.at.elapsed() >= ttl
        })
    }

    /// Stores the probe result and returns the warnings that are new.
    pub(super) fn replace(&self, connections: u64, server: RedisServer, probing: Probing) -> Vec<String> {
        let warnings = server.warnings();
        let new = Probe { at: Instant::now(), connections, server, probing };
        let before = self.lock().replace(new).map(|last| last.server.warnings()).unwrap_or_default();
        warnings.into_iter().filter(|warning| !before.contains(warning)).collect()
    }

    /// Returns the result of `read` for the properties of the server, or `None` if they are unknown.
    pub(super) fn server<T>(&self, read: impl FnOnce(&RedisServer) -> T) -> Option<T> {
        self.lock().as_ref().map(|probe| read(&probe.server))
    }

    /// Returns the result of `read` for the refused commands of the server, or `None` if they are unknown.
    pub(super) fn commands<T>(&self, read: impl FnOnce(&RedisServer) -> T) -> Option<T> {
        let probe = self.lock();
        probe.as_ref().filter(|probe| probe.probing == Probing::Commands).map(|probe| read(&probe.server))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Probe>> {
        self.0.lock().expect("the lock is never poisoned")
    }
}
