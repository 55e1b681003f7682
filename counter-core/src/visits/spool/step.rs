//! Operations on a disk that may hang.

use std::fmt;

use tokio::sync::Mutex;

use crate::family::future::BoxFuture;

/// Runs one disk operation at a time.
///
/// A disk operation cannot be cancelled: it blocks a thread until the disk answers. So a step that timed out is kept, and no
/// other starts before it ends. A hanging disk therefore blocks only one thread, and the application keeps the other blocking
/// threads for its own files and name lookups.
pub(crate) struct Step<T>(Mutex<Option<BoxFuture<'static, T>>>);

impl<T> Step<T> {
    /// Continues the step that timed out, or starts one, and returns its result.
    pub(crate) async fn or_begin(&self, begin: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let mut step = self.0.lock().await;
        let answer = step.get_or_insert_with(begin).await;
        *step = None;
        answer
    }

    /// Waits for the step that timed out, ignores its result, and then starts one.
    pub(crate) async fn after_another(&self, begin: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let mut step = self.0.lock().await;
        if let Some(earlier) = step.as_mut() {
            drop(earlier.await);
        }
        let answer = step.insert(begin()).await;
        *step = None;
        answer
    }

    /// Returns whether a step that timed out is still running.
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
