//! Panics of what a loop calls that is to go on: of a store, a database, a recorder of metrics, or a log that
//! cannot be written.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// The text of a panic.
#[derive(Debug)]
pub(crate) struct Panicked(String);

/// Completes as the future does, or with its panic as an error like others.
///
/// What the future works on must be whole wherever something that it calls may panic.
pub(crate) fn caught<'a, T: 'a, E: From<Panicked> + 'a>(
    future: impl Future<Output = Result<T, E>> + Send + 'a,
) -> impl Future<Output = Result<T, E>> + Send + 'a {
    // Without its type, since futures of a store are deep, and rustc follows those of a task to a depth of 128.
    let mut future: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(future);
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(Panicked::of(panic).into())))
    })
}

/// Logs or publishes, where that is possible.
pub(crate) fn tell(telling: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(telling)) {
        discard(panic);
    }
}

impl Panicked {
    fn of(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let panicked = Self(text.unwrap_or("a panic without a text").to_owned());
        discard(panic);
        panicked
    }
}

/// Drops what a panic carries, which may panic in turn; what that one carries is left alone.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Panicked {}
