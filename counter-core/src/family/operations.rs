//! Metrics for operations that query the store on every call, via the `metrics` facade.

use crate::error::{Error, ErrorKind};

#[cfg(feature = "metrics")]
const OPERATIONS_TOTAL: &str = "access_counter_operations_total";
#[cfg(feature = "metrics")]
const OPERATION_SECONDS: &str = "access_counter_operation_seconds";

/// An error that has a value for the metrics label `outcome`.
pub(crate) trait Outcome {
    fn outcome(&self) -> &'static str;
}

/// Registers units and descriptions of the operation metrics with the `metrics` recorder.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    {
        use metrics::{Unit, describe_counter, describe_histogram};
        describe_counter!(OPERATIONS_TOTAL, Unit::Count, "Counter operations by outcome");
        describe_histogram!(OPERATION_SECONDS, Unit::Seconds, "Duration of counter operations");
    }
}

/// Runs an operation, and records the outcome and duration. This does not record anything if the future is
/// dropped early.
pub(crate) async fn measured<T, E: Outcome>(
    operation: &'static str,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    #[cfg(feature = "metrics")]
    let started = std::time::Instant::now();
    let reply = future.await;
    #[cfg(feature = "metrics")]
    {
        let outcome = reply.as_ref().map_or_else(Outcome::outcome, |_| "ok");
        metrics::counter!(OPERATIONS_TOTAL, "operation" => operation, "outcome" => outcome).increment(1);
        metrics::histogram!(OPERATION_SECONDS, "operation" => operation).record(started.elapsed());
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (operation, reply.as_ref().err().map(Outcome::outcome));
    reply
}

impl Outcome for Error {
    fn outcome(&self) -> &'static str {
        match self.kind() {
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Unconfirmed => "unconfirmed",
            ErrorKind::Rejected => "refused",
            ErrorKind::WindowClosed { .. } => "closed",
            ErrorKind::Malformed { .. } => "malformed",
            _ => "invalid",
        }
    }
}
