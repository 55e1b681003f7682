use std::fmt;
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use counter_core::Recorder;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Hit, Measured, Skip};
use counter_layer::internal::{self, Counted, Decider, Logged};
use counter_layer::{AccessCounterLayer, Forwarded};
use http::uri::Uri;
use http::{HeaderValue, Method, Request, header};

use crate::line::{Header, Line};
use crate::malformed::Malformed;

/// Evaluates lines of an access log, like an [`AccessCounterLayer`] evaluates requests.
///
/// A line is converted to a request head, to which the same rules, identity, bot detection, facets and
/// closures are applied. This will produce the same hits as the request in the layer.
///
/// # Limits of a log
///
/// - A matched route is not available, because we don't have a router. You can use templates in
///   [rules](AccessCounterLayer::rules), or derive templates from the path in
///   [`matched_path`](AccessCounterLayer::matched_path) or [`fallback`](AccessCounterLayer::fallback).
/// - A gRPC call only counts under the method if this process knows the method, because a log does not
///   contain if it exists.
/// - Closures can only access logged headers, and the [`SocketAddr`] of the peer as an extension. If the
///   layer [issues](counter_layer::IssuedCookie) a cookie and `Cookie` is logged, lines only contain the
///   cookie sent by the client.
/// - With HTTP/2, the site is in the `Host` header instead of the authority.
/// - If the service panics or fails, the log contains the status that the server sent instead. A status of
///   499 means that the client closed the connection.
/// - A header with the value `-` looks like a missing header. Servers join repeated headers with commas.
/// - If the user agent is not logged, the client [may be a bot](Agent::Unknown). The visitor is the address alone, and
///   labels that need this header count `(not recorded)`. This also applies to other headers.
/// - A method or a status that is not logged has no facet. Rules treat such a request like a `GET` request.
/// - If the address is not logged, or is a host name, the request has no visitor.
/// - The time of a hit is the logged time: the end of the request for nginx, but the start for Apache.
/// - For [distributions](AccessCounterLayer::distributions), we use the status and, if available, the time to
///   the end of the response (unless in whole seconds) and the body size. Only CloudFront logs the time to
///   the response head.
/// - The layer does not measure event streams or incomplete responses, but in a log these look like any other
///   response.
/// - If nginx sends chunks to an HTTP/1.1 client, the logged size includes the chunk headers, i.e. 5 bytes or
///   more.
/// - Actions of [`on_count`](AccessCounterLayer::on_count) do not run for lines.
///
/// ```
/// use counter_core::visitor::VisitorKey;
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::{AccessCounterLayer, Rule, Rules};
/// use counter_log::{Decision, Format, LogCounter, Parser};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let rules = Rules::builder().rule(Rule::counter("articles").pattern("/articles/{id}")).build()?;
/// let layer = AccessCounterLayer::new(counters.recorder()).rules(rules);
/// let mut counter = LogCounter::new(&layer);
///
/// let mut parser = Parser::new(Format::combined());
/// let line = br#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /articles/7 HTTP/1.1" 200 2326 "-" "curl/8""#;
/// let line = parser.parse(line)?.expect("not a comment");
/// let Decision::Counted { hits, .. } = counter.decide(&line, VisitorKey::random()) else { unreachable!() };
/// assert_eq!(hits.len(), 2); // under `hits` and under `articles`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LogCounter {
    decider: Decider,
    /// The key that identifies visitors, unless the identity has a separate key.
    key: Option<VisitorKey>,
    behind: Option<(Forwarded, IpAddr)>,
    head: Head,
}

/// The result for a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The request counts.
    Counted {
        /// The hits of the request: for `hits`, for the page, and for facets and labels.
        hits: &'a [Hit],
        /// The kind of client.
        agent: Agent,
        /// The distribution bins of the request, to be passed to
        /// [`Source::record_measured`](counter_core::source::Source::record_measured).
        measured: Measured<'a>,
    },
    /// The request does not count.
    Skipped(Skip),
    /// The line has the right format, but does not contain a valid HTTP request.
    Malformed(Malformed),
}

/// A request head, which is reused for all lines.
struct Head {
    request: Request<()>,
    /// A buffer shared by the target and the headers. If these are dropped, it can be reused.
    text: BytesMut,
}

impl LogCounter {
    /// Creates a counter that evaluates log lines like this layer evaluates requests.
    #[must_use]
    pub fn new(layer: &AccessCounterLayer) -> Self {
        let head = Head { request: Request::new(()), text: BytesMut::new() };
        Self { decider: Decider::new(layer), key: None, behind: None, head }
    }

    /// Declares that the log is written by a reverse proxy in front of the service. The proxy adds the client
    /// address to this header, and the service sees the proxy at this address.
    ///
    /// In such a log, the peer is the client of the proxy. We thus reconstruct the request as received by the
    /// service, i.e. with the proxy as the peer, and with the client appended to the header. By default, we
    /// assume that the log is written by the service or by a server in the same place.
    ///
    /// Some requests never reach the service, because the proxy responds directly (e.g. to a malformed path,
    /// if the body is too large, or with a file or a cached page). These count as well. If hyper would reject
    /// a request, the line is treated as malformed.
    #[must_use]
    pub fn behind(mut self, header: Forwarded, proxy: IpAddr) -> Self {
        self.behind = Some((header, proxy));
        self
    }

    /// Returns whether [`decide`](Self::decide) uses the key to identify visitors.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.decider.needs_key()
    }

    /// Returns the recorder of the counters.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        self.decider.recorder()
    }

    /// Evaluates a line. `key` must be the visitor key of the salt epoch that contains the time of the line.
    ///
    /// `key` is ignored if the identity is stable or has a separate key. This does not record anything.
    pub fn decide(&mut self, line: &Line<'_>, key: VisitorKey) -> Decision<'_> {
        if self.key != Some(key) && self.needs_key() {
            self.decider.use_key(key);
            self.key = Some(key);
        }
        if let Err(malformed) = self.head.fill(line) {
            return Decision::Malformed(malformed);
        }
        let peer = line.peer.map(|peer| peer.to_canonical());
        let peer = match (&self.behind, peer) {
            (Some((header, proxy)), Some(client)) => {
                internal::append(header, self.head.request.headers_mut(), client);
                Some(*proxy)
            }
            // The header must not end with an entry that the client wrote.
            (Some((header, _)), None) => {
                internal::remove(header, self.head.request.headers_mut());
                None
            }
            (None, peer) => peer,
        };
        self.head.set_peer(peer);
        let logged = Logged {
            at: line.at,
            has_method: line.method.is_some(),
            has_header: &|name| line.header(name) != Header::NotRecorded,
            time: line.first_byte,
            body: line.duration,
            size: line.bytes,
        };
        match self.decider.decide(&self.head.request, &logged, line.outcome) {
            Ok(Counted { hits, agent, measured }) => Decision::Counted { hits, agent, measured },
            Err(skip) => Decision::Skipped(skip),
        }
    }
}

impl Head {
    #[inline]
    fn fill(&mut self, line: &Line<'_>) -> Result<(), Malformed> {
        let Self { request, text } = self;
        // Frees the buffer, so that it can be reused.
        *request.uri_mut() = Uri::default();
        request.headers_mut().clear();
        let host = line.host.filter(|_| line.header(&header::HOST).sent().is_none());
        let lengths = line.headers().map(|(_, value)| value.len());
        text.reserve(line.target.len() + lengths.sum::<usize>() + host.map_or(0, <[u8]>::len));
        let mut shared = |part: &[u8]| {
            text.extend_from_slice(part);
            text.split().freeze()
        };
        let method = line.method.unwrap_or(b"GET");
        if request.method().as_str().as_bytes() != method {
            *request.method_mut() = Method::from_bytes(method).map_err(|_| Malformed::Request)?;
        }
        *request.uri_mut() = Uri::from_maybe_shared(shared(line.target)).map_err(|_| Malformed::Request)?;
        if let Some(version) = line.version {
            *request.version_mut() = version;
        }
        let host = host.map(|host| (&header::HOST, host));
        for (name, value) in line.headers().chain(host) {
            let value = HeaderValue::from_maybe_shared(shared(value)).map_err(|_| Malformed::Request)?;
            request.headers_mut().append(name, value);
        }
        Ok(())
    }

    fn set_peer(&mut self, peer: Option<IpAddr>) {
        let extensions = self.request.extensions_mut();
        match (peer, extensions.get_mut::<SocketAddr>()) {
            (Some(peer), Some(address)) => *address = SocketAddr::new(peer, 0),
            (Some(peer), None) => drop(extensions.insert(SocketAddr::new(peer, 0))),
            (None, _) => drop(extensions.remove::<SocketAddr>()),
        }
    }
}

impl fmt::Debug for LogCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogCounter").field("decider", &self.decider).finish_non_exhaustive()
    }
}
