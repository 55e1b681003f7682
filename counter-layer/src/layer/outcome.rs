use http::StatusCode;

/// The way a request ended, as far as the layer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The request was counted on arrival; how it ends is not known.
    Arrived,
    /// The head of the response was ready; also of an upgrade, and of a stream that goes on.
    Answered(StatusCode),
    /// The inner service returned an error.
    Failed,
    /// The inner service panicked.
    Panicked,
    /// The response was no longer awaited: the client went away (nginx logs this as 499).
    Aborted,
}

impl Outcome {
    /// Returns `true` if the client got an answer that is neither a client error nor a server error.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Answered(status) if status.as_u16() < 400)
    }
}
