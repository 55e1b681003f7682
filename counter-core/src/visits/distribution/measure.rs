use std::fmt;

/// A quantity of requests to be counted in distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
// As wide as a bin index, so that the CPU can handle a bin as a single number.
#[repr(u16)]
pub enum Measure {
    /// Time to the response head, in seconds.
    Time = 1,
    /// Time to the end of the response body, in seconds.
    Body,
    /// Size of the response body, in bytes.
    Size,
    /// HTTP status.
    Status,
    /// gRPC status.
    Grpc,
}

impl Measure {
    /// All measures, in order.
    pub const ALL: [Self; 5] = [Self::Time, Self::Body, Self::Size, Self::Status, Self::Grpc];

    /// Bound on the relative error of a quantile of times and sizes: 4.33 %, i.e. half of the distance
    /// between the bounds of a bin.
    pub const RELATIVE_ERROR: f64 = 0.0433;

    /// Returns the letter used for bins in dumps: `t`, `b`, `s`, `c` for HTTP status codes, and `g`.
    #[must_use]
    pub const fn code(self) -> char {
        match self {
            Self::Time => 't',
            Self::Body => 'b',
            Self::Size => 's',
            Self::Status => 'c',
            Self::Grpc => 'g',
        }
    }

    /// Returns the name: `time`, `body`, `size`, `status` or `grpc`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Body => "body",
            Self::Size => "size",
            Self::Status => "status",
            Self::Grpc => "grpc",
        }
    }

    /// Returns the measure with this letter.
    #[must_use]
    pub fn of_code(code: char) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.code() == code)
    }

    /// Returns `true` if bins are ranges, whose quantiles have a [relative error](Self::RELATIVE_ERROR),
    /// instead of single numbers.
    #[must_use]
    pub const fn is_range(self) -> bool {
        matches!(self, Self::Time | Self::Body | Self::Size)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
