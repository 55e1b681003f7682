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
    /// The method, if it is logged.
    pub method: Option<&'a [u8]>,
    /// The request target, typically a path with a query.
    pub target: &'a [u8],
    /// The HTTP version, if it is logged.
    pub version: Option<Version>,
    /// The site name, if it is logged.
    pub host: Option<&'a [u8]>,
    /// The outcome. This is [`Outcome::Unknown`] if the status is not logged. A status of 499 or 0 means that the client
    /// closed the connection.
    pub outcome: Outcome,
    /// The peer address, if it is logged and readable. Some servers log host names instead.
    pub peer: Option<IpAddr>,
    /// The size of the response body, if it is logged without the head.
    pub bytes: Option<u64>,
    /// The time to the first byte of the response, if it is logged.
    pub first_byte: Option<Duration>,
    /// The time to the end of the response, if it is logged more precisely than in seconds.
    pub duration: Option<Duration>,
    pub(crate) headers: Headers<'a>,
    /// True if the time lacks a zone, so that it is assumed to be UTC.
    pub(crate) lacks_zone: bool,
}

/// A request header in a log or a record.
///
/// A log only contains some of the headers. If a header is not one of them, we don't know whether the client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header<T> {
    /// The client sent this value.
    Sent(T),
    /// The client did not send the header.
    NotSent,
    /// The header is not part of the log.
    #[default]
    NotRecorded,
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
    pub(crate) pieces: &'a [LoggedHeader],
    /// True if the log contains all headers that the client sent.
    pub(crate) are_complete: bool,
}

/// A header, and the rank of the field that contains it.
#[derive(Clone, Debug)]
pub(crate) struct LoggedHeader {
    pub(crate) name: HeaderName,
    pub(crate) rank: u8,
    pub(crate) value: Header<Piece>,
}

impl Piece {
    #[inline]
    pub(super) fn of<'a>(self, line: &'a [u8], unescaped: &'a [u8]) -> &'a [u8] {
        let text = if self.is_unescaped { unescaped } else { line };
        &text[self.start..self.end]
    }
}

impl<T> Header<T> {
    /// Returns the value, if the client is known to have sent one.
    pub fn sent(self) -> Option<T> {
        match self {
            Self::Sent(value) => Some(value),
            Self::NotSent | Self::NotRecorded => None,
        }
    }
}

impl<'a> Line<'a> {
    /// Returns the logged request headers that were sent, in log order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a HeaderName, &'a [u8])> + use<'a> {
        let Headers { line, unescaped, pieces, .. } = self.headers;
        pieces.iter().filter_map(move |header| match header.value {
            Header::Sent(piece) => Some((&header.name, piece.of(line, unescaped))),
            Header::NotSent | Header::NotRecorded => None,
        })
    }

    /// Returns the first header with this name.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Header<&'a [u8]> {
        let Headers { line, unescaped, pieces, are_complete } = self.headers;
        match pieces.iter().find(|header| header.name == name).map(|header| header.value) {
            Some(Header::Sent(piece)) => Header::Sent(piece.of(line, unescaped)),
            Some(Header::NotSent) => Header::NotSent,
            None if are_complete => Header::NotSent,
            None | Some(Header::NotRecorded) => Header::NotRecorded,
        }
    }

    /// Returns the user agent.
    #[must_use]
    pub fn user_agent(&self) -> Header<&'a [u8]> {
        self.header(&header::USER_AGENT)
    }

    /// Returns the referring URL.
    #[must_use]
    pub fn referer(&self) -> Header<&'a [u8]> {
        self.header(&header::REFERER)
    }
}

impl fmt::Debug for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("at", &self.at).field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
