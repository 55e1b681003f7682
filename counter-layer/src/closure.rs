//! Closures supplied by the application, with panics caught.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// A closure supplied by the application, which may panic.
///
/// It can be called while a handler panic unwinds, and a second panic would then abort the process. Also, the
/// request must be served even if the closure panics.
pub struct Closure<F: ?Sized> {
    /// The name of the closure in log messages.
    name: &'static str,
    logged: AtomicBool,
    closure: F,
}

impl<F> Closure<F> {
    /// Wraps a closure; `name` appears in log messages.
    pub const fn new(name: &'static str, closure: F) -> Self {
        Self { name, logged: AtomicBool::new(false), closure }
    }
}

impl<F: ?Sized> Closure<F> {
    /// Calls the closure and returns the result, or `None` if it panics.
    // Kept out of the request path, because most requests have no closure.
    #[inline(never)]
    pub fn call<R>(&self, call: impl FnOnce(&F) -> R) -> Option<R> {
        let result = catch_panic(|| call(&self.closure));
        if result.is_none() {
            self.log_panic();
        }
        result
    }

    /// Calls the closure, awaits the future and returns the result, or `None` if either panics.
    pub async fn call_async<A: Future>(&self, call: impl FnOnce(&F) -> A) -> Option<A::Output> {
        let result = catch_panic_future(self.call(call)?).await;
        if result.is_none() {
            self.log_panic();
        }
        result
    }

    /// Logs only the first panic of the closure. The panic hook reports all panics with the location.
    #[cold]
    fn log_panic(&self) {
        if !self.logged.swap(true, Ordering::Relaxed) {
            // The log subscriber may panic as well.
            catch_panic(|| {
                tracing::warn!(
                    closure = self.name,
                    "a closure panicked; requests are handled as if it was not set"
                );
            });
        }
    }
}

/// Runs a closure and returns the result, or `None` if it panics.
pub(crate) fn catch_panic<R>(run: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(returned) => Some(returned),
        Err(payload) => {
            // Dropping the payload might panic; the payload of that panic is leaked.
            if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(another);
            }
            None
        }
    }
}

/// Polls a future and returns the output, or `None` if it panics.
pub(crate) async fn catch_panic_future<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let output = poll_fn(|context| match catch_panic(|| future.as_mut().poll(context)) {
        Some(Poll::Pending) => Poll::Pending,
        Some(Poll::Ready(output)) => Poll::Ready(Some(output)),
        None => Poll::Ready(None),
    });
    output.await
}

impl<F: ?Sized> fmt::Debug for Closure<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Closure").field(&self.name).finish()
    }
}
