use http::StatusCode;

/// Outcome of a request, as seen by the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The request was counted on arrival, so the outcome is not known.
    Unknown,
    /// The response head was ready. This includes upgrades, and streams still being sent.
    Responded(StatusCode),
    /// The inner service returned an error.
    Failed,
    /// The inner service panicked.
    Panicked,
    /// The response future was dropped, because the client disconnected (nginx logs this as 499).
    Aborted,
}

impl Outcome {
    /// Returns `true` if the response status is not a client error or a server error.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Responded(status) if status.as_u16() < 400)
    }

    /// Returns `true` if the response shows the page, or tells the client that its copy is still valid.
    pub(super) fn shows_page(self) -> bool {
        matches!(self, Self::Responded(status) if status.is_success() || status == StatusCode::NOT_MODIFIED)
    }

    /// Returns `true` if the page does not exist.
    pub(super) const fn is_missing(self) -> bool {
        matches!(self, Self::Responded(StatusCode::NOT_FOUND | StatusCode::GONE))
    }
}
