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
    /// Requests that wait at the same time share one batch, which is sent at once; the loop of
    /// [`Counters::run`](counter_core::Counters::run) has to go on meanwhile. While the store is away
    /// every response is late by the timeout.
    BeforeResponse {
        /// When to send the response all the same: its hit still waits to be sent, and the request is
        /// `unconfirmed` in the ledger.
        timeout: Duration,
    },
}
