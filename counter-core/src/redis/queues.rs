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
    /// When something was begun on it for the first time since nothing was.
    pub(super) since: Instant,
}

/// What may be under way on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    Nothing,
    /// Something was asked, and keys may be watched.
    Watch,
    /// Commands are queued.
    Multi,
}
