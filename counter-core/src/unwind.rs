//! Panics of what the upkeep calls: a log that cannot be written, a recorder of metrics, a store.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use crate::{Error, ErrorKind};

/// The output of a future, or that it panicked.
///
/// What the future works on must be whole wherever something that it calls may panic.
pub(crate) fn caught<'a, T>(
    future: impl Future<Output = Result<T, Error>> + Send + 'a,
) -> impl Future<Output = Result<T, Error>> + Send + 'a
where
    T: 'a,
{
    // Without its type, since futures of a store are deep, and rustc follows those of a task to a depth of 128.
    let mut future: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(future);
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic))))
    })
}

/// Logs or publishes, if that is possible.
pub(crate) fn quietly(tell: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(tell)));
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::new(ErrorKind::Panicked).caused_by(text.unwrap_or("a panic without a text"))
}
