use std::fmt;

/// A quantity that requests have, of which a counter can keep a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
// As wide as the index of a bin, so that a bin is one number to the processor.
#[repr(u16)]
pub enum Measure {
    /// The time to the head of the response, in seconds.
    Time = 1,
    /// The time to the end of the body of the response, in seconds.
    Body,
    /// The size of the body of the response, in bytes.
    Size,
    /// The status of HTTP.
    Status,
    /// The status of gRPC.
    Grpc,
}

impl Measure {
    /// The measures, in their order.
    pub const ALL: [Self; 5] = [Self::Time, Self::Body, Self::Size, Self::Status, Self::Grpc];

    /// The bound on the relative error of a quantile of times and sizes: 4.33 %, half of what lies between the bounds of
    /// a bin.
    pub const RELATIVE_ERROR: f64 = 0.0433;

    /// Returns the letter of its bins in dumps: `t`, `b`, `s`, `c` for the codes of HTTP, and `g`.
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

    /// Returns its name: `time`, `body`, `size`, `status` or `grpc`.
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

    /// Returns the measure of a letter.
    #[must_use]
    pub fn of_code(code: char) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.code() == code)
    }

    /// Returns whether its bins are ranges, whose quantiles have a [relative error](Self::RELATIVE_ERROR), and not
    /// numbers that stand for themselves.
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
