use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use counter_core::Timestamp;
use counter_layer::Outcome;
use http::{HeaderName, Version, header};

/// A request as a line of a log tells it.
///
/// Its texts are borrowed from the line, or from the [`Parser`](crate::Parser) where they stand in the line with
/// escapes. `Debug` shows nothing of the client.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Line<'a> {
    /// The time that the server wrote, in whole seconds. Servers differ in whether a request began or ended then.
    pub at: Timestamp,
    /// The method.
    pub method: &'a [u8],
    /// The target of the request, as a rule a path with a query.
    pub target: &'a [u8],
    /// The version of HTTP, where it is logged.
    pub version: Option<Version>,
    /// The name of the site, where it is logged.
    pub host: Option<&'a [u8]>,
    /// The end of the request: its status; a status of 499, or none at all, says that the client went away.
    pub outcome: Outcome,
    /// The other end of the connection, where it is logged and has an address.
    pub peer: Option<IpAddr>,
    /// The bytes of the body that were sent, where they are logged without those of the head.
    pub bytes: Option<u64>,
    /// The time to the first byte of the response, where it is logged.
    pub first_byte: Option<Duration>,
    /// The time to the end of the response, where it is logged in a unit below a second.
    pub duration: Option<Duration>,
    pub(crate) headers: Headers<'a>,
}

/// A part of a line, or of the text that its escapes stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) is_unescaped: bool,
}

/// The headers of the request, as pieces of two texts.
#[derive(Clone, Copy)]
pub(crate) struct Headers<'a> {
    pub(crate) line: &'a [u8],
    pub(crate) unescaped: &'a [u8],
    pub(crate) pieces: &'a [(HeaderName, Piece)],
}

impl Piece {
    #[inline]
    pub(super) fn of<'a>(self, line: &'a [u8], unescaped: &'a [u8]) -> &'a [u8] {
        let text = if self.is_unescaped { unescaped } else { line };
        &text[self.start..self.end]
    }
}

impl<'a> Line<'a> {
    /// Returns the headers of the request that are logged, such as the user agent, in the order of the line.
    pub fn headers(&self) -> impl Iterator<Item = (&'a HeaderName, &'a [u8])> + use<'a> {
        let Headers { line, unescaped, pieces } = self.headers;
        pieces.iter().map(move |(name, piece)| (name, piece.of(line, unescaped)))
    }

    /// Returns the first header of this name, if it is logged and the request had one.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&'a [u8]> {
        self.headers().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// Returns the user agent, if it is logged and the request had one.
    #[must_use]
    pub fn user_agent(&self) -> Option<&'a [u8]> {
        self.header(&header::USER_AGENT)
    }

    /// Returns the referring URL, if it is logged and the request had one.
    #[must_use]
    pub fn referer(&self) -> Option<&'a [u8]> {
        self.header(&header::REFERER)
    }
}

impl fmt::Debug for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("at", &self.at).field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
