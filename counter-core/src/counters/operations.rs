//! How operations go, through the `metrics` facade.

use std::time::Instant;

/// An operation that is under way: tells how it ended, and after what time.
#[derive(Debug)]
pub(crate) struct Operation {
    name: &'static str,
    begun: Instant,
}

impl Operation {
    pub(crate) fn begin(name: &'static str) -> Self {
        Self { name, begun: Instant::now() }
    }

    /// What it ended with, unchanged.
    pub(crate) fn end<T, E>(self, result: Result<T, E>) -> Result<T, E> {
        #[cfg(feature = "metrics")]
        {
            let outcome = if result.is_ok() { "ok" } else { "error" };
            metrics::counter!("access_counter_operations_total", "operation" => self.name, "outcome" => outcome)
                .increment(1);
            metrics::histogram!("access_counter_operation_seconds", "operation" => self.name)
                .record(self.begun.elapsed());
        }
        #[cfg(not(feature = "metrics"))]
        let _ = (self.name, self.begun);
        result
    }
}
