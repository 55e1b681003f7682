use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client_handle::ClientHandle;

/// The transactions of one server.
#[derive(Default)]
pub(in crate::redis) struct Queues {
    pub(in crate::redis) upkeep: Mutex<Option<Exclusive>>,
    pub(in crate::redis) calls: Mutex<Option<Exclusive>>,
}

/// A connection for one transaction at a time.
pub(in crate::redis) struct Exclusive {
    pub(in crate::redis) handle: ClientHandle,
    pub(in crate::redis) begun: Begun,
    /// The time since which a transaction has been under way on it.
    pub(in crate::redis) since: Instant,
}

/// The state of a connection within a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Begun {
    Nothing,
    /// Something was asked, and keys may be watched.
    Watch,
    /// Commands are queued.
    Multi,
}
