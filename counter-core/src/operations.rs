//! The operations of counters that ask the store at once, through the `metrics` facade.

use crate::{Error, ErrorKind};

#[cfg(feature = "metrics")]
const OPERATIONS: &str = "access_counter_operations_total";
#[cfg(feature = "metrics")]
const SECONDS: &str = "access_counter_operation_seconds";

/// How something ended that did not succeed, in a word.
pub(super) trait Outcome {
    fn outcome(&self) -> &'static str;
}

/// Says what each of them means, to the recorder of the moment.
pub(super) fn describe() {
    #[cfg(feature = "metrics")]
    {
        use metrics::{Unit, describe_counter, describe_histogram};
        describe_counter!(OPERATIONS, Unit::Count, "Operations of counters by how they ended");
        describe_histogram!(SECONDS, Unit::Seconds, "How long operations of counters took");
    }
}

/// Does it, and tells how it ended and how long it took; one that is dropped before tells nothing.
pub(super) async fn measured<T, E: Outcome>(
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
