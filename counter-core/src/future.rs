use std::pin::Pin;

/// A future in a box, which a store answers with, so that it can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
