use std::fmt;
use std::future::pending;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

/// Options of the admin router.
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
    /// Returns the defaults: 64 listeners, without a time limit.
    #[must_use]
    pub fn new() -> Self {
        Self { listeners: 64, live_until: pending().boxed().shared() }
    }

    /// Sets how many clients may listen to live events at the same time.
    #[must_use]
    pub const fn listeners(mut self, listeners: usize) -> Self {
        self.listeners = listeners;
        self
    }

    /// Ends live events when this future completes or panics.
    ///
    /// A server that stops gracefully waits for its responses, and live events have no end of their own: give
    /// it the same signal.
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
