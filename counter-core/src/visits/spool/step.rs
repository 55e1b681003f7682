//! Operations on a disk that may hang.

use std::fmt;

use tokio::sync::Mutex;

use crate::family::future::BoxFuture;

/// Runs disk operations, one at a time.
///
/// We can't cancel a disk operation: it blocks a thread until the disk responds. So if a step times out, we
/// hold on to it and don't start another. A hanging disk will thus block only a single thread, and the
/// application can use the other blocking threads for file access and name lookups.
pub(crate) struct Step<T>(Mutex<Option<BoxFuture<'static, T>>>);

impl<T> Step<T> {
    /// Resumes the step that timed out, or starts a new step, and returns the result.
    pub(crate) async fn resume_or_start(&self, start: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let mut step = self.0.lock().await;
        let result = step.get_or_insert_with(start).await;
        *step = None;
        result
    }

    /// Waits for the step that timed out, ignores the result, and then starts a new step.
    pub(crate) async fn start_after_previous(&self, start: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let mut step = self.0.lock().await;
        if let Some(earlier) = step.as_mut() {
            drop(earlier.await);
        }
        let result = step.insert(start()).await;
        *step = None;
        result
    }

    /// Returns `true` while a step that timed out is running.
    pub(crate) fn is_running(&mut self) -> bool {
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
