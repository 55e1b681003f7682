use std::time::Duration;

/// The choice whether a response waits for the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Sends the response at once: the hit leaves with the next flush, and is lost if the process is killed
    /// before.
    #[default]
    Background,
    /// Sends the response when the store has its hit, so that a client with a response is counted even if the
    /// process is killed.
    ///
    /// Requests that wait at the same time share one batch. It is sent as soon as the one before it is
    /// acknowledged, not at the next interval; the loop of [`Counters::run`](counter_core::Counters::run) has
    /// to be running. An error of the inner service waits as a response does. A request that makes no hit
    /// does not wait, and neither does the answer to a panic, which something further out gives. A stored hit
    /// is as safe as the store. A hit that the store refused for good is no longer waited for, and is
    /// `dropped` in the ledger.
    ///
    /// While the store is away every response is late by the timeout. A failed attempt is followed by the
    /// next after two seconds at most, whatever the interval.
    BeforeResponse {
        /// The longest wait after the inner service has answered. After it the response is sent all the same:
        /// its hit is on the way, and the request is `unconfirmed` in the ledger.
        timeout: Duration,
    },
}
