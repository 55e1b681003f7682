//! Closures of the application, whose panics end where they are called.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// A closure of the application, which may panic.
///
/// It can be asked while the panic of a handler unwinds, and a second one that left it would end the process;
/// and the request it is asked about is to be served whatever it does.
pub struct Closure<F: ?Sized> {
    /// The name in the log.
    name: &'static str,
    told: AtomicBool,
    closure: F,
}

impl<F> Closure<F> {
    /// Wraps a closure; `name` is its name in the log.
    pub const fn new(name: &'static str, closure: F) -> Self {
        Self { name, told: AtomicBool::new(false), closure }
    }
}

impl<F: ?Sized> Closure<F> {
    /// Returns the answer of the closure; `None` when it panics.
    // Kept out of the request path, because most requests have no closure.
    #[inline(never)]
    pub fn ask<R>(&self, ask: impl FnOnce(&F) -> R) -> Option<R> {
        let answer = caught(|| ask(&self.closure));
        if answer.is_none() {
            self.tell();
        }
        answer
    }

    /// Returns the answer of the future that the closure returns; `None` when one of the two panics.
    pub async fn await_answer<A: Future>(&self, ask: impl FnOnce(&F) -> A) -> Option<A::Output> {
        let answer = caught_future(self.ask(ask)?).await;
        if answer.is_none() {
            self.tell();
        }
        answer
    }

    /// Logs it once: the panic hook tells of each panic, with its place.
    #[cold]
    fn tell(&self) {
        if !self.told.swap(true, Ordering::Relaxed) {
            // What writes the log may panic as well.
            caught(|| tracing::warn!(closure = self.name, "a closure panics; its requests go on without it"));
        }
    }
}

/// Runs a closure and returns its result; `None` when it panics.
pub(crate) fn caught<R>(run: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(returned) => Some(returned),
        Err(payload) => {
            // What a panic carries may panic when it is dropped, and what that panic carries is left alone.
            if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(another);
            }
            None
        }
    }
}

/// Polls a future to its end and returns its output; `None` when it panics.
pub(crate) async fn caught_future<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let output = poll_fn(|context| match caught(|| future.as_mut().poll(context)) {
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
