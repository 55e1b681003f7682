//! Work on a disk that may hang.

use std::fmt;

use tokio::sync::Mutex;

use crate::future::BoxFuture;

/// One step at a time of work on a disk.
///
/// What a disk has not answered cannot be called back: it holds a thread until it is answered. So a step that is given
/// up is kept, and no other is begun before it has ended. However long a disk hangs, that is one thread, and the
/// threads on which the application reads files and looks up names are left to it.
pub(crate) struct Step<T>(Mutex<Option<BoxFuture<'static, T>>>);

impl<T> Step<T> {
    /// Goes on with the step that was given up, or begins one, and returns its result.
    pub(crate) async fn or_begin(&self, begin: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let mut step = self.0.lock().await;
        let answer = step.get_or_insert_with(begin).await;
        *step = None;
        answer
    }

    /// Ends the step that was given up, whatever comes of it, and then begins one.
    pub(crate) async fn after_another(&self, begin: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let mut step = self.0.lock().await;
        if let Some(earlier) = step.as_mut() {
            drop(earlier.await);
        }
        let answer = step.insert(begin()).await;
        *step = None;
        answer
    }

    /// Returns whether a step was given up that has not ended.
    pub(crate) fn is_under_way(&mut self) -> bool {
        self.0.get_mut().is_some()
    }
}

impl<T> Default for Step<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Step")
    }
}
