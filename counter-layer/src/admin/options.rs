use std::fmt;
use std::future::pending;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

/// What of the admin router may be set otherwise.
///
/// ```
/// use counter_layer::admin::Options;
///
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let options = Options::new().listeners(8).live_until(async { drop(stopped.await) });
/// # drop((stop, options));
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) listeners: usize,
    pub(crate) live_until: Shared<BoxFuture<'static, ()>>,
}

impl Options {
    /// 64 listeners, for as long as they like.
    #[must_use]
    pub fn new() -> Self {
        Self { listeners: 64, live_until: pending().boxed().shared() }
    }

    /// So many may listen to live events at the same time.
    #[must_use]
    pub const fn listeners(mut self, listeners: usize) -> Self {
        self.listeners = listeners;
        self
    }

    /// Live events end when this future does, or when it panics. A server that stops gracefully waits for its
    /// answers, and these would have no end: give it the same signal.
    #[must_use]
    pub fn live_until(mut self, stopped: impl Future<Output = ()> + Send + 'static) -> Self {
        // It is asked by the answers that it is to end, and its panic would be that of the connection.
        self.live_until = AssertUnwindSafe(stopped).catch_unwind().map(drop).boxed().shared();
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}
