use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client_handle::ClientHandle;

/// The transactions of one server.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) upkeep: Mutex<Option<Exclusive>>,
    pub(super) calls: Mutex<Option<Exclusive>>,
}

/// A connection for one transaction at a time.
pub(super) struct Exclusive {
    pub(super) handle: ClientHandle,
    pub(super) begun: Begun,
    /// The time since which a transaction has been under way on it.
    pub(super) since: Instant,
}

/// The state of a connection within a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    Nothing,
    /// Something was asked, and keys may be watched.
    Watch,
    /// Commands are queued.
    Multi,
}
