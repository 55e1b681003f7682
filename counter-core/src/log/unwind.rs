//! Panics in code that a loop calls and must survive: a store, a database, a metrics recorder, or a log
//! subscriber.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// The text of a panic.
#[derive(Debug)]
pub struct Panicked(String);

/// Completes as the future does, or returns its panic as an ordinary error.
///
/// The data that the future works on must be consistent whenever something that it calls may panic.
pub fn caught<'a, T: 'a, E: From<Panicked> + 'a>(
    future: impl Future<Output = Result<T, E>> + Send + 'a,
) -> impl Future<Output = Result<T, E>> + Send + 'a {
    // Boxed, since futures of a store are deep, and rustc follows those of a task to a depth of 128.
    let mut future: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(future);
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(Panicked::of(panic).into())))
    })
}

/// Calls a logger or a metrics recorder, and ignores its panic.
pub fn tell(telling: impl FnOnce()) {
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

/// Drops the payload of a panic, which may panic in turn; the payload of that one is leaked.
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
