use std::pin::Pin;

/// A boxed future, which a store returns so that the store can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
