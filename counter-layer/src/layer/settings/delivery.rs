use std::time::Duration;

/// Delivery mode, i.e. whether a response has to wait for the store.
///
/// ```
/// use std::time::Duration;
///
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::{AccessCounterLayer, Delivery};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// // For hits that must not be lost, e.g. because they are billed.
/// let timeout = Duration::from_millis(500);
/// let layer = AccessCounterLayer::new(counters.recorder())
///     .delivery(Delivery::BeforeResponse { timeout });
/// # let _: AccessCounterLayer = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Sends the response immediately. The hit is sent with the next flush, and will be lost if the process
    /// is killed before.
    #[default]
    Background,
    /// Sends the response after the hit is stored. If a client gets a response, the request is counted even
    /// if the process is killed then.
    ///
    /// Requests waiting at the same time share a batch. It is sent as soon as the previous batch is
    /// acknowledged, instead of at the next interval; [`Counters::run`](counter_core::Counters::run) must be
    /// running for this. An error from the inner service waits like a response does. If a request does not
    /// count, it does not wait, and neither does the response to a panic, which is created by an outer layer.
    /// A stored hit is as safe as the store. If the store permanently rejects a hit, the response will be
    /// sent, and the hit is `dropped` in the ledger.
    ///
    /// If the store is unavailable, responses are delayed by the timeout. A failed attempt is retried after
    /// at most two seconds, independent of the interval.
    BeforeResponse {
        /// Maximum time to wait after the inner service responded. On timeout the response is sent anyway:
        /// the hit is still being delivered, and the request is `unconfirmed` in the ledger.
        timeout: Duration,
    },
}
