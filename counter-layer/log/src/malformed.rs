use std::fmt;

/// The reason why a line of a log, or a record of another program, says no request: what could not be read in it.
///
/// It never carries a part of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Malformed {
    /// The line has more than [`MAX_LINE`](crate::MAX_LINE) bytes.
    TooLong,
    /// The record is no JSON. Of a log, whose format may be JSON, such a line has wrong [fields](Self::Fields).
    Json,
    /// The line does not have the fields of the format, or the record none that make sense together.
    Fields,
    /// The time is missing, or there is no such time.
    Time,
    /// The client's address is no address; servers can be told to log names of hosts in its place.
    Address,
    /// The request is missing or is none of HTTP, as when a client speaks TLS to a port without it.
    Request,
    /// The status is missing or is no number of three digits.
    Status,
}

impl Malformed {
    /// All reasons, in the order in which their numbers are shown.
    pub const ALL: [Self; 7] =
        [Self::TooLong, Self::Json, Self::Fields, Self::Time, Self::Address, Self::Request, Self::Status];

    /// Returns the name of the reason in metrics: `too_long`, `json`, `fields`, `time`, `address`, `request` or
    /// `status`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Json => "json",
            Self::Fields => "fields",
            Self::Time => "time",
            Self::Address => "address",
            Self::Request => "request",
            Self::Status => "status",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the line is too long",
            Self::Json => "the record is no JSON",
            Self::Fields => "the fields are not those of the format",
            Self::Time => "the time cannot be read",
            Self::Address => "the client's address cannot be read",
            Self::Request => "the request cannot be read",
            Self::Status => "the status cannot be read",
        })
    }
}

impl std::error::Error for Malformed {}

/// The number of malformed lines, or records, by reason.
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
    /// Counts one line.
    pub const fn add(&mut self, reason: Malformed) {
        self.0[reason as usize] += 1;
    }

    /// Returns the number of lines with this reason.
    #[must_use]
    pub const fn of(&self, reason: Malformed) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the number of all malformed lines.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
