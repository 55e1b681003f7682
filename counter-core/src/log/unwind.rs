//! Catches panics in code that is called from background loops: stores, databases, metrics recorders and log
//! subscribers.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// A caught panic, with the panic message.
#[derive(Debug)]
pub struct Panicked(String);

/// Runs a future, but returns panics as errors.
///
/// The data used by the future must be consistent at any point where it might panic.
pub fn catch_panic<'a, T: 'a, E: From<Panicked> + 'a>(
    future: impl Future<Output = Result<T, E>> + Send + 'a,
) -> impl Future<Output = Result<T, E>> + Send + 'a {
    // Boxed because store futures are deeply nested, and rustc has a recursion limit of 128.
    let mut future: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(future);
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(Panicked::of(panic).into())))
    })
}

/// Calls a logger or a metrics recorder, ignoring panics.
pub fn emit(call: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        discard(panic);
    }
}

impl Panicked {
    fn of(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let panicked = Self(text.unwrap_or("unknown panic").to_owned());
        discard(panic);
        panicked
    }
}

/// Drops the payload of a panic. If this panics as well, the second payload is leaked.
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
