use std::process::Command;

use tests::{LIMIT, Process};

use crate::brokers::example;
use crate::topic::Topic;

/// The account that a consumer gives at its end.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Account {
    pub(crate) read: u64,
    pub(crate) recorded: u64,
    excluded: u64,
    pub(crate) unmatched: u64,
    pub(crate) malformed: u64,
    pub(crate) already_counted: u64,
    pub(crate) lost: u64,
}

impl Account {
    pub(crate) fn assert_balanced(&self) {
        let decided = self.recorded + self.excluded + self.unmatched + self.malformed + self.already_counted;
        assert_eq!(self.read, decided, "{self:?}");
    }
}

/// The session timeout, in seconds. Brokers in memory take nearly as long for each rebalance, and 3 s for the first one
/// of a group, in which members must not time out.
const SESSION: &str = "4";

/// The time that a broker may wait in a rebalance for members that were killed.
const POLL: &str = "max.poll.interval.ms=6000";

/// Starts a consumer in a process of its own.
pub(crate) fn start(brokers: &str, redis: &str, arguments: &[&str]) -> Process {
    Process::start(
        Command::new(example("consume"))
            .args(["--kafka", brokers, "--topic", Topic::NAME])
            .args(["--redis", redis, "--session-timeout", SESSION, "--set", POLL])
            .args(arguments)
            .env("RUST_LOG", "info"),
    )
}

/// Waits until a consumer has ended, and returns its account.
pub(crate) async fn account(mut process: Process) -> Account {
    let status = process.wait(LIMIT).await;
    assert!(status.success(), "{status}\n{process}");
    let account = process.wait_line(|line| serde_json::from_str::<Account>(line).ok(), LIMIT).await;
    account.assert_balanced();
    account
}
