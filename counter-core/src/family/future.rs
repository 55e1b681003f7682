use std::pin::Pin;

use crate::error::Error;

/// A boxed future. Store methods return boxed futures so that the store can be chosen at runtime.
///
/// Futures that are large or run for a long time should also be boxed if they are awaited in applications: an
/// `async fn` body is compiled by the crate that awaits it, including the futures that it awaits in turn, and
/// is compiled again whenever this crate changes.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The future returned by store methods: a boxed future that resolves to the result, or an [`Error`].
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, Error>>;
