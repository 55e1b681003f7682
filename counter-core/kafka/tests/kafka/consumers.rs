use std::ffi::OsString;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use tests::{LIMIT, Process};

use crate::topic::Topic;

/// The totals that a consumer prints on exit.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Totals {
    pub(crate) read: u64,
    pub(crate) recorded: u64,
    excluded: u64,
    pub(crate) unmatched: u64,
    ignored: u64,
    pub(crate) malformed: u64,
    pub(crate) already_counted: u64,
    pub(crate) lost: u64,
}

impl Totals {
    pub(crate) fn assert_balanced(&self) {
        let decided = self.recorded + self.excluded + self.unmatched + self.ignored + self.malformed;
        assert_eq!(self.read, decided + self.already_counted, "{self:?}");
    }
}

/// The example app with feature `kafka`.
static EXAMPLE: LazyLock<OsString> = LazyLock::new(|| {
    std::env::var_os("COUNTER_EXAMPLE")
        .expect("these tests run by `tests/tools/kafka`, which builds the example")
});

/// Session timeout. In-memory brokers need nearly this long for a rebalance, and 3 s for the first rebalance
/// of a group, during which members must not time out.
pub(crate) const SESSION: Duration = Duration::from_secs(4);

/// Maximum time for a broker to wait for killed members during a rebalance.
const POLL: &str = "max.poll.interval.ms=6000";

/// Starts `example-app consume` in a separate process.
pub(crate) fn start(brokers: &str, store: &str, arguments: &[&str]) -> Process {
    Process::start(
        Command::new(&*EXAMPLE)
            .args(["consume", "--kafka", brokers, "--topic", Topic::NAME])
            .args(["--store", store, "--session-timeout", &SESSION.as_secs().to_string(), "--set", POLL])
            .args(arguments)
            .env("RUST_LOG", "info"),
    )
}

/// Waits for a consumer to exit and returns the totals.
pub(crate) async fn totals(mut process: Process) -> Totals {
    let status = process.wait(LIMIT).await;
    assert!(status.success(), "{status}\n{process}");
    let totals = process.wait_line(|line| serde_json::from_str::<Totals>(line).ok(), LIMIT).await;
    totals.assert_balanced();
    totals
}
