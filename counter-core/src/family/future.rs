use std::pin::Pin;

use crate::error::Error;

/// A boxed future, which a store returns so that the store can be chosen at run time.
///
/// What runs for long, or is large, is boxed too where an application awaits it: the body of an `async fn` is compiled
/// in the crate that awaits it, with everything it awaits in turn, and so again at every change of that crate.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer of a store to a call: a boxed future of it, or of the [`Error`] for which there is none.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;
