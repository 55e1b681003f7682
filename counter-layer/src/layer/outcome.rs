use http::StatusCode;

/// How a request ended, as far as the layer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was counted on its way in: how it ends is not known.
    Arrived,
    /// The head of the response was there; also of an upgrade, and of a stream that goes on.
    Answered(StatusCode),
    /// The inner service returned an error.
    Failed,
    /// The inner service panicked.
    Panicked,
    /// Nobody waited for the response any longer: the client went away (what nginx logs as 499).
    Aborted,
}

impl Outcome {
    /// Whether the client got an answer that is neither a client's nor a server's error.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Answered(status) if status.as_u16() < 400)
    }
}
