use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// The time of the last probe of the server, and the warnings that were logged then.
#[derive(Debug, Default)]
pub(super) struct Probed(Mutex<Option<Probe>>);

#[derive(Debug)]
struct Probe {
    at: Instant,
    /// The connections that the store had made at that time.
    connections: u64,
    warnings: Vec<String>,
}

/// The time for which a probe is valid, unless there is a new connection: settings change while a server
/// runs.
const PERIOD: Duration = Duration::from_secs(600);

impl Probed {
    /// Returns whether to probe again: from time to time, and after a new connection, which may lead to
    /// another server.
    pub(super) fn is_due(&self, connections: u64) -> bool {
        let last = self.lock();
        last.as_ref().is_none_or(|last| last.connections != connections || last.at.elapsed() >= PERIOD)
    }

    /// Keeps the result of a probe; returns the warnings that the last one did not have.
    pub(super) fn replace(&self, connections: u64, warnings: Vec<String>) -> Vec<String> {
        let new = Probe { at: Instant::now(), connections, warnings: warnings.clone() };
        let before = self.lock().replace(new).map(|last| last.warnings).unwrap_or_default();
        warnings.into_iter().filter(|warning| !before.contains(warning)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Probe>> {
        self.0.lock().expect("nothing panics under this lock")
    }
}
