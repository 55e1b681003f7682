use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client_handle::ClientHandle;

/// The connections for transactions on a server, one for each [`Queue`](crate::redis::Queue). A transaction
/// holds the lock.
#[derive(Default)]
pub(in crate::redis) struct Queues {
    pub(in crate::redis) upkeep: Mutex<Option<Exclusive>>,
    pub(in crate::redis) calls: Mutex<Option<Exclusive>>,
}

/// A connection used by a single transaction at a time.
pub(in crate::redis) struct Exclusive {
    pub(in crate::redis) handle: ClientHandle,
    pub(in crate::redis) state: TransactionState,
    /// The time at which the current transaction has been started.
    pub(in crate::redis) since: Instant,
}

/// The transaction state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum TransactionState {
    Idle,
    /// Commands have been sent, and keys may be watched.
    Watching,
    /// Commands are being queued.
    Queuing,
}
