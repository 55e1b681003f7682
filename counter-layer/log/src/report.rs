use std::fmt;
use std::net::IpAddr;

use counter_core::visits::{Agent, Skip};

use crate::format::X_FORWARDED_FOR;
use crate::line::{Header, Line};
use crate::malformed::Malformed;

/// The outcome of an [`Import`](crate::Import), for people who want to know why a line did not count, and whether the
/// numbers mean what they expect.
///
/// Lines that are read again, e.g. after a failover, are included again.
#[derive(Clone, Default)]
pub struct Report {
    lines: u64,
    counted: u64,
    uncounted: Vec<Uncounted>,
    hints: Hints,
    first_peer: Option<IpAddr>,
}

/// Lines that did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uncounted {
    /// The reason.
    pub reason: Reason,
    /// The number of lines.
    pub lines: u64,
    /// The number of the first line, counted from 1, if the log was read from the start.
    pub first: Option<u64>,
}

/// The reason why a line did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The line is not a request.
    Malformed(Malformed),
    /// The request does not count according to the settings of the layer.
    Skipped(Skip),
}

/// The number of counted lines that may mean something else than the owner of the log expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// Lines without a field for the user agent, so these clients may be bots.
    pub without_user_agent: u64,
    /// Lines without an address, or with a text that is not an address. If no proxy is trusted, these requests have no
    /// visitor.
    pub without_address: u64,
    /// Lines whose time does not contain a time zone.
    pub without_time_zone: u64,
    /// Lines with a client address in `X-Forwarded-For`.
    pub forwarded: u64,
    /// True if there are lines with different addresses.
    pub has_addresses: bool,
}

impl Report {
    /// Returns the number of lines with a request, including malformed lines.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the number of lines that counted.
    #[must_use]
    pub const fn counted(&self) -> u64 {
        self.counted
    }

    /// Returns the lines that did not count, by reason, in the order of their first line.
    #[must_use]
    pub fn uncounted(&self) -> &[Uncounted] {
        &self.uncounted
    }

    /// Returns the number of malformed lines.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        let malformed = self.uncounted.iter().filter(|one| matches!(one.reason, Reason::Malformed(_)));
        malformed.map(|one| one.lines).sum()
    }

    /// Returns what may be wrong with the counted lines.
    #[must_use]
    pub const fn hints(&self) -> Hints {
        self.hints
    }

    #[inline]
    pub(crate) fn count(&mut self, line: &Line<'_>, agent: Agent) {
        self.lines += 1;
        self.counted += 1;
        let hints = &mut self.hints;
        hints.without_user_agent += u64::from(agent == Agent::Unknown);
        hints.without_time_zone += u64::from(line.lacks_zone);
        match line.peer {
            None => hints.without_address += 1,
            Some(_) if hints.has_addresses => {}
            Some(peer) => hints.has_addresses = *self.first_peer.get_or_insert(peer) != peer,
        }
        hints.forwarded += u64::from(matches!(line.header(&X_FORWARDED_FOR), Header::Sent(_)));
    }

    pub(crate) fn leave_out(&mut self, reason: Reason, number: Option<u64>) {
        self.lines += 1;
        match self.uncounted.iter_mut().find(|one| one.reason == reason) {
            Some(one) => one.lines += 1,
            None => self.uncounted.push(Uncounted { reason, lines: 1, first: number }),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Skipped(skip) => f.write_str(match skip {
                Skip::Excluded => "a rule excludes the path",
                Skip::Unmatched => "no rule matches the path",
                Skip::Outcome => "the outcome does not count",
                Skip::Prefetch => "it is a prefetch",
                Skip::Own => "the owner of the site ignores it",
                _ => "it does not count",
            }),
        }
    }
}

// An address must not be logged.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("lines", &self.lines)
            .field("counted", &self.counted)
            .field("uncounted", &self.uncounted)
            .field("hints", &self.hints)
            .finish_non_exhaustive()
    }
}
