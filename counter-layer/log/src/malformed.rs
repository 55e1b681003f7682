use std::fmt;

/// The reason why a line or a record is not a valid request, i.e. the part that can't be read.
///
/// This never contains any text of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Malformed {
    /// The line is longer than [`MAX_LINE`](crate::MAX_LINE) bytes.
    TooLong,
    /// The record is not valid JSON. In a log, this is reported as wrong [fields](Self::Fields) instead.
    Json,
    /// The line does not match the format, or the fields of the record contradict each other.
    Fields,
    /// The time is missing or invalid.
    Time,
    /// The request is missing or is not HTTP, e.g. because a client uses TLS on a plain port.
    Request,
    /// The status does not have three digits.
    Status,
}

impl Malformed {
    /// All reasons, in display order.
    pub const ALL: [Self; 6] =
        [Self::TooLong, Self::Json, Self::Fields, Self::Time, Self::Request, Self::Status];

    /// Returns the name in metrics: `too_long`, `json`, `fields`, `time`, `request` or `status`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Json => "json",
            Self::Fields => "fields",
            Self::Time => "time",
            Self::Request => "request",
            Self::Status => "status",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the line is too long",
            Self::Json => "the record is not valid JSON",
            Self::Fields => "the fields do not match the format",
            Self::Time => "the time is invalid",
            Self::Request => "the request is invalid",
            Self::Status => "the status is invalid",
        })
    }
}

impl std::error::Error for Malformed {}

/// The number of malformed lines or records by reason.
///
/// ```
/// use counter_log::{Malformed, MalformedLines};
///
/// let mut lines = MalformedLines::default();
/// lines.add(Malformed::Time);
/// assert_eq!((lines.of(Malformed::Time), lines.total()), (1, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MalformedLines([u64; Malformed::ALL.len()]);

impl MalformedLines {
    /// Counts a line.
    pub const fn add(&mut self, reason: Malformed) {
        self.0[reason as usize] += 1;
    }

    /// Returns the number of lines with this reason.
    #[must_use]
    pub const fn of(&self, reason: Malformed) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the total number of malformed lines.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
