//! Panics of what is called from a loop that is to go on: of a database, a cache, or whatever writes the log.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use super::{EntityError, EntityErrorKind};

/// Does it; a panic is an error like others. What is under way has to lie elsewhere.
pub(super) async fn caught<T>(doing: impl Future<Output = Result<T, EntityError>>) -> Result<T, EntityError> {
    let mut doing = pin!(doing);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| doing.as_mut().poll(context))) {
        Ok(poll) => poll,
        Err(panic) => {
            let error = EntityError::new(EntityErrorKind::Panicked).caused_by(Panicked(message(&*panic)));
            discard(panic);
            Poll::Ready(Err(error))
        }
    })
    .await
}

/// Tells of something, where that can be told.
pub(super) fn tell(telling: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(telling)) {
        discard(panic);
    }
}

/// What a panic carries may panic when it is dropped; what that one carries is left alone.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}

/// What a panic says.
#[derive(Debug)]
struct Panicked(String);

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it says nothing").to_owned()
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Panicked {}
