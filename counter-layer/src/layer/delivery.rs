use std::time::Duration;

/// Whether a response waits for the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// It does not: the hit leaves with the next flush, and a process that is killed before loses it.
    #[default]
    Background,
    /// It goes out when the store has its hit, so that whoever has the response is counted, even if the
    /// process is killed.
    ///
    /// Requests that wait at the same time share one batch, which is sent as soon as the one before it is
    /// acknowledged and not at the next interval; the loop of
    /// [`Counters::run`](counter_core::Counters::run) has to go on meanwhile. An error of the inner service
    /// waits as a response does. What makes no hit does not wait, and neither does the answer to a panic,
    /// which something further out gives. What the store has is as safe as the store: a hit that it refused
    /// for good is waited for no longer, and is `dropped` in the ledger.
    ///
    /// While the store is away every response is late by the timeout. A failed attempt is followed by the
    /// next after two seconds at most, whatever the interval.
    BeforeResponse {
        /// How long to wait after the inner service has answered. Then the response is sent all the same: its
        /// hit is on its way, and the request is `unconfirmed` in the ledger.
        timeout: Duration,
    },
}
