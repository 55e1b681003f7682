use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use counter_core::Timestamp;
use counter_layer::Outcome;
use http::{HeaderName, Version, header};

/// A request, as described by a log line.
///
/// Values borrow from the line, or from the [`Parser`](crate::Parser) if they contain escape sequences. The
/// `Debug` output does not include client data.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Line<'a> {
    /// The time in whole seconds. Depending on the server, this is the start or the end of the request.
    pub at: Timestamp,
    /// The method.
    pub method: &'a [u8],
    /// The request target, typically a path with a query.
    pub target: &'a [u8],
    /// The HTTP version, if it is logged.
    pub version: Option<Version>,
    /// The site name, if it is logged.
    pub host: Option<&'a [u8]>,
    /// The outcome. A status of 499 or 0 means that the client closed the connection.
    pub outcome: Outcome,
    /// The peer address, if it is logged.
    pub peer: Option<IpAddr>,
    /// The size of the response body, if it is logged without the head.
    pub bytes: Option<u64>,
    /// The time to the first byte of the response, if it is logged.
    pub first_byte: Option<Duration>,
    /// The time to the end of the response, if it is logged more precisely than in seconds.
    pub duration: Option<Duration>,
    pub(crate) headers: Headers<'a>,
}

/// A part of a line, or of the unescaped text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) is_unescaped: bool,
}

/// The request headers. The pieces refer to both texts.
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
    /// Returns the logged request headers, in log order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a HeaderName, &'a [u8])> + use<'a> {
        let Headers { line, unescaped, pieces } = self.headers;
        pieces.iter().map(move |(name, piece)| (name, piece.of(line, unescaped)))
    }

    /// Returns the first header with this name, if it is logged and was sent.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&'a [u8]> {
        self.headers().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// Returns the user agent, if it is logged and was sent.
    #[must_use]
    pub fn user_agent(&self) -> Option<&'a [u8]> {
        self.header(&header::USER_AGENT)
    }

    /// Returns the referring URL, if it is logged and was sent.
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
