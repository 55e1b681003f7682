//! Operations that their caller awaits, through the `metrics` facade.

use crate::Error;

#[cfg(feature = "metrics")]
const OPERATIONS: &str = "access_counter_operations_total";
#[cfg(feature = "metrics")]
const SECONDS: &str = "access_counter_operation_seconds";

/// Says what each of them means, to the recorder of the moment, if there is one.
pub(super) fn describe() {
    #[cfg(feature = "metrics")]
    {
        use metrics::{Unit, describe_counter, describe_histogram};
        describe_counter!(OPERATIONS, Unit::Count, "Awaited operations on counters by how they ended");
        describe_histogram!(SECONDS, Unit::Seconds, "How long awaited operations on counters took");
    }
}

/// Counts an operation and takes its time; one that is dropped is none.
pub(super) async fn observed<T>(
    operation: &'static str,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    #[cfg(feature = "metrics")]
    let began = std::time::Instant::now();
    let answer = answer.await;
    #[cfg(feature = "metrics")]
    {
        let outcome = answer.as_ref().map_or_else(|error| outcome(error.kind()), |_| "ok");
        metrics::counter!(OPERATIONS, "operation" => operation, "outcome" => outcome).increment(1);
        metrics::histogram!(SECONDS, "operation" => operation).record(began.elapsed());
    }
    #[cfg(not(feature = "metrics"))]
    let _ = operation;
    answer
}

#[cfg(feature = "metrics")]
const fn outcome(kind: &crate::ErrorKind) -> &'static str {
    use crate::ErrorKind;
    match kind {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unconfirmed => "unconfirmed",
        ErrorKind::Refused => "refused",
        _ => "failed",
    }
}
