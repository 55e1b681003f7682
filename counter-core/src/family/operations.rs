//! Metrics for operations that query the store on every call, via the `metrics` facade.

use crate::error::{Error, ErrorKind};

#[cfg(feature = "metrics")]
const OPERATIONS: &str = "access_counter_operations_total";
#[cfg(feature = "metrics")]
const SECONDS: &str = "access_counter_operation_seconds";

/// The outcome of a failed operation, used as a label value.
pub(crate) trait Outcome {
    fn outcome(&self) -> &'static str;
}

/// Describes the metrics to the current recorder.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    {
        use metrics::{Unit, describe_counter, describe_histogram};
        describe_counter!(OPERATIONS, Unit::Count, "Operations of counters by outcome");
        describe_histogram!(SECONDS, Unit::Seconds, "How long operations of counters took");
    }
}

/// Runs an operation, and records the outcome and duration. This does not record anything if the future is
/// dropped early.
pub(crate) async fn measured<T, E: Outcome>(
    operation: &'static str,
    doing: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    #[cfg(feature = "metrics")]
    let begun = std::time::Instant::now();
    let answer = doing.await;
    #[cfg(feature = "metrics")]
    {
        let outcome = answer.as_ref().map_or_else(Outcome::outcome, |_| "ok");
        metrics::counter!(OPERATIONS, "operation" => operation, "outcome" => outcome).increment(1);
        metrics::histogram!(SECONDS, "operation" => operation).record(begun.elapsed());
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (operation, answer.as_ref().err().map(Outcome::outcome));
    answer
}

impl Outcome for Error {
    fn outcome(&self) -> &'static str {
        match self.kind() {
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Unconfirmed => "unconfirmed",
            ErrorKind::Refused => "refused",
            ErrorKind::WindowClosed { .. } => "closed",
            ErrorKind::Malformed { .. } => "malformed",
            _ => "invalid",
        }
    }
}
