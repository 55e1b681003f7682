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

use crate::line::Line;
use crate::malformed::Malformed;

/// Decides about the lines of an access log as an [`AccessCounterLayer`] decides about
/// requests.
///
/// A line becomes a request head, and goes through the same rules, identity, recognition of bots, facets and closures: the hits of a line are
/// those that the layer made of the request.
///
/// # What a log does not know
///
/// - The route that matched: there is no router. Templates have to be [rules](AccessCounterLayer::rules), or what
///   [`matched_path`](AccessCounterLayer::matched_path) or [`fallback`](AccessCounterLayer::fallback) make of a path.
/// - Whether a method of gRPC exists, if nothing else has counted it in this process.
/// - Headers that are not logged, and extensions but the peer's [`SocketAddr`]. Closures see the head without them. Of
///   a cookie that the layer [issues](counter_layer::IssuedCookie), lines know only what the client sent back, where `Cookie`
///   is logged.
/// - The authority of HTTP/2: where the name of the site is logged, it is the header `Host`.
/// - Panics and errors of the service: the server answered with a status in their place. An answer of 499 passes for a
///   client that went away.
/// - Whether a header of a lone minus was there, and how many of one name there were: servers log these as one, with
///   commas.
/// - The part of a second: a hit counts in the second that the server logged, which is the one of its end with nginx and
///   the one of its beginning with Apache.
/// - Most times. Of [distributions](AccessCounterLayer::distributions), lines have the status, and where they are logged
///   the time to the end of the response, unless in whole seconds, and the bytes of its body. The time to its head is
///   in the logs of CloudFront alone.
/// - Whether a response was a stream of events, whose end the layer does not measure, and whether it was sent to its end.
/// - The bytes of a body that nginx sent to HTTP/1.1 in chunks: it counts what is around them, 5 bytes and more.
/// - What an action of [`on_count`](AccessCounterLayer::on_count) did: it does not run for lines.
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
    /// The key that identifies visitors, unless the identity has its own key.
    key: Option<VisitorKey>,
    behind: Option<(Forwarded, IpAddr)>,
    head: Head,
}

/// The decision about a line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The request counts.
    Counted {
        /// The hits of the request: under `hits`, on its page, and under its facets and labels.
        hits: &'a [Hit],
        /// The kind of client.
        agent: Agent,
        /// The bins of distributions that the request adds to, for
        /// [`Source::record_measured`](counter_core::source::Source::record_measured).
        measured: Measured<'a>,
    },
    /// The request makes no hit.
    Skipped(Skip),
    /// The line has the fields of its format, but no server of HTTP took this for a request.
    Malformed(Malformed),
}

/// A request head, whose memory is reused for every line.
struct Head {
    request: Request<()>,
    /// The buffer that the target and the headers share. It is free again when they are dropped.
    text: BytesMut,
}

impl LogCounter {
    /// Creates a counter that decides on the lines of an access log as this layer decides on requests.
    #[must_use]
    pub fn new(layer: &AccessCounterLayer) -> Self {
        let head = Head { request: Request::new(()), text: BytesMut::new() };
        Self { decider: Decider::new(layer), key: None, behind: None, head }
    }

    /// Declares that the log is that of a reverse proxy in front of the service, which writes the client's address
    /// into this header, and which the service sees at this address.
    ///
    /// The peer in such a log is the client of the proxy. The head of a line is then that of the request as the proxy
    /// passes it on: its peer is the proxy, and the client stands behind what the header had. Without this, the log is
    /// that of a server in the place of the service, which has the peer and the header that the service has.
    ///
    /// Requests that the proxy answers itself (a broken path, a body that is too large, a file, a cache) are in its log
    /// alone, and count from there. One that it passes on and that hyper refuses is a malformed line.
    #[must_use]
    pub fn behind(mut self, header: Forwarded, proxy: IpAddr) -> Self {
        self.behind = Some((header, proxy));
        self
    }

    /// Returns whether visitors are told apart by the key that [`decide`](Self::decide) is given.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.decider.needs_key()
    }

    /// Returns the recorder of the counters that lines feed.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        self.decider.recorder()
    }

    /// Decides about a line; `key` is that of the visitors of the salt epoch in which the line's instant lies.
    ///
    /// The key is not used by an identity that has its own, or that is stable. Nothing is recorded.
    pub fn decide(&mut self, line: &Line<'_>, key: VisitorKey) -> Decision<'_> {
        if self.key != Some(key) && self.needs_key() {
            self.decider.use_key(key);
            self.key = Some(key);
        }
        if let Err(malformed) = self.head.fill(line) {
            return Decision::Malformed(malformed);
        }
        let peer = line.peer.map(|peer| peer.to_canonical());
        let peer = match &self.behind {
            Some((header, proxy)) => {
                if let Some(client) = peer {
                    internal::append(header, self.head.request.headers_mut(), client);
                }
                Some(*proxy)
            }
            None => peer,
        };
        self.head.set_peer(peer);
        let logged = Logged {
            at: line.at,
            outcome: line.outcome,
            time: line.first_byte,
            body: line.duration,
            size: line.bytes,
        };
        match self.decider.decide(&self.head.request, &logged) {
            Ok(Counted { hits, agent, measured }) => Decision::Counted { hits, agent, measured },
            Err(skip) => Decision::Skipped(skip),
        }
    }
}

impl Head {
    #[inline]
    fn fill(&mut self, line: &Line<'_>) -> Result<(), Malformed> {
        let Self { request, text } = self;
        // Frees the text, so that its memory is reused.
        *request.uri_mut() = Uri::default();
        request.headers_mut().clear();
        let host = line.host.filter(|_| line.header(&header::HOST).is_none());
        let lengths = line.headers().map(|(_, value)| value.len());
        text.reserve(line.target.len() + lengths.sum::<usize>() + host.map_or(0, <[u8]>::len));
        let mut shared = |part: &[u8]| {
            text.extend_from_slice(part);
            text.split().freeze()
        };
        if request.method().as_str().as_bytes() != line.method {
            *request.method_mut() = Method::from_bytes(line.method).map_err(|_| Malformed::Request)?;
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
