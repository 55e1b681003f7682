//! Arbitrary bytes as headers, from clients and from proxies.
//!
//! An input is read line by line. The first character of a line determines the meaning of the rest:
//!
//! | character | rest |
//! |---|---|
//! | `f` `x` `r` | a value that the client sends as `Forwarded`, `X-Forwarded-For`, `X-Real-IP` |
//! | `c` `u` | a value that the client sends as `Cookie`, `User-Agent` |
//! | `p` | the peer of the connection |
//! | `h` | the number of trusted hops |
//! | `n` | a trusted network |
//! | `>` | an entry by another trusted proxy: a style character, followed by a parameter value |
//!
//! Whether or not a client sends such headers, the visitor must be the address seen by the outermost trusted
//! proxy.
#![no_main]

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Waker};

use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, VisitorId};
use counter_layer::ipnet::IpNet;
use counter_layer::{AccessCounterLayer, Forwarded, Identity, Outcome};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use libfuzzer_sys::fuzz_target;
use tower::{Layer, ServiceExt, service_fn};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Maximum number of lines. More lines would only be slower, but not find more.
const MAX_LINES: usize = 16;

struct Input<'a> {
    headers: HeaderMap,
    peer: IpAddr,
    hops: usize,
    networks: Vec<IpNet>,
    proxies: Vec<Proxy<'a>>,
}

/// How a proxy formats an entry.
#[derive(Clone, Copy)]
struct Proxy<'a> {
    style: u8,
    text: &'a [u8],
}

fuzz_target!(|input: &[u8]| {
    let input = Input::read(input);
    check_no_panic(&input);
    check_issued_cookie_is_accepted(&input);
    if !input.proxies.is_empty() {
        check_client_headers_are_ignored(&input, &header::FORWARDED, &Forwarded::RFC7239, Proxy::parameters);
        check_client_headers_are_ignored(
            &input,
            &X_FORWARDED_FOR,
            &Forwarded::X_FORWARDED_FOR,
            Proxy::address,
        );
    }
});

fn check_no_panic(input: &Input<'_>) {
    let mut distinct = Visitors::default();
    let request = request(input.peer, &input.headers);
    for header in [Forwarded::RFC7239, Forwarded::X_FORWARDED_FOR, Forwarded::header(X_REAL_IP)] {
        let forwarded = Identity::forwarded(header);
        distinct.visit(forwarded.clone().trusted_hops(input.hops), request.clone());
        distinct.visit(forwarded.trusted_networks(input.networks.iter().copied()), request.clone());
    }
    distinct.visit(Identity::cookie("visitor"), request.clone());
    distinct.visit(Identity::header(header::COOKIE), request);
}

fn check_issued_cookie_is_accepted(input: &Input<'_>) {
    let mut distinct = Visitors::default();
    let Some(cookie) =
        distinct.visit(Identity::issued_cookie("visitor"), request(input.peer, &input.headers))
    else {
        return;
    };
    let pair = cookie.as_bytes().split(|byte| *byte == b';').next().expect("there is a first");
    let mut headers = HeaderMap::new();
    headers.insert(header::COOKIE, HeaderValue::from_bytes(pair).expect("a part of a value"));
    let second = distinct.visit(Identity::issued_cookie("visitor"), request(input.peer, &headers));
    assert_eq!((second, distinct.count()), (None, 1));
}

/// Checks that the visitor doesn't depend on whether the client's headers are sent, or whether it connects
/// directly.
fn check_client_headers_are_ignored<'a>(
    input: &Input<'a>,
    name: &HeaderName,
    header: &Forwarded,
    write: impl Fn(Proxy<'a>, IpAddr) -> Vec<u8>,
) {
    let agent =
        HeaderValue::from_static("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0");
    let plain = HeaderMap::from_iter([(header::USER_AGENT, agent)]);
    let client = input.proxies[0].client();
    let (mut spoofed, mut honest) = (plain.clone(), plain.clone());
    for value in input.headers.get_all(name) {
        spoofed.append(name, value.clone());
    }
    let mut previous = client;
    for (number, proxy) in (1..).zip(&input.proxies) {
        let entry = write(*proxy, previous);
        for headers in [&mut spoofed, &mut honest] {
            append(headers, name, &entry, proxy.on_separate_line());
        }
        previous = Ipv4Addr::new(10, 0, 0, number).into();
    }
    let mut distinct = Visitors::default();
    distinct.visit(Identity::peer(), request(client, &plain));
    for headers in [&spoofed, &honest] {
        let forwarded = Identity::forwarded(header.clone());
        let trusted = "10.0.0.0/8".parse().expect("a network");
        distinct.visit(forwarded.clone().trusted_networks([trusted]), request(previous, headers));
        distinct.visit(forwarded.trusted_hops(input.proxies.len()), request(previous, headers));
    }
    assert_eq!(distinct.count(), 1, "{client} sends {spoofed:?}");
}

/// Appends an entry, like proxies do.
fn append(headers: &mut HeaderMap, name: &HeaderName, entry: &[u8], separate_line: bool) {
    let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).expect("a valid header value");
    let lines = headers.get_all(name).iter().count();
    match headers.get_all(name).iter().next_back() {
        Some(last) if !separate_line => {
            let joined = value(&[last.as_bytes(), b", ", entry].concat());
            let remaining: Vec<_> = headers.get_all(name).iter().take(lines - 1).cloned().collect();
            headers.remove(name);
            for line in remaining.into_iter().chain([joined]) {
                headers.append(name, line);
            }
        }
        _ => {
            headers.append(name, value(entry));
        }
    }
}

fn request(peer: IpAddr, headers: &HeaderMap) -> Request<()> {
    let mut request = Request::new(());
    *request.headers_mut() = headers.clone();
    request.extensions_mut().insert(SocketAddr::new(peer, 1000));
    request
}

/// The settings that all layers share. It takes milliseconds to create a layer, but not to copy it.
static LAYER: LazyLock<AccessCounterLayer> = LazyLock::new(|| {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    AccessCounterLayer::new(counters.recorder())
});

/// Distinct visitors, identified with a fixed key.
#[derive(Default)]
struct Visitors(Arc<Mutex<HashSet<VisitorId>>>);

impl Visitors {
    /// Sends a request and returns the cookie that the response sets.
    fn visit(&mut self, identity: impl Into<Identity>, request: Request<()>) -> Option<HeaderValue> {
        let seen = Arc::clone(&self.0);
        let layer = LAYER.clone().on_count(move |visit| {
            seen.lock().expect("no panic").extend(visit.visitor);
            None::<fn(Outcome)>
        });
        let layer =
            layer.identity(identity.into().key(VisitorKey::new([7; 16]))).expect("its cookies have names");
        let service = layer.layer(service_fn(async |_| Ok::<_, Infallible>(Response::new(()))));
        let response = ready(service.oneshot(request)).expect("infallible");
        response.headers().get(header::SET_COOKIE).cloned()
    }

    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }
}

/// Returns the output of a future that never waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the future never waits"),
    }
}

impl<'a> Input<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut input = Self {
            headers: HeaderMap::new(),
            peer: Ipv4Addr::LOCALHOST.into(),
            hops: 1,
            networks: Vec::new(),
            proxies: Vec::new(),
        };
        for line in bytes.split(|byte| *byte == b'\n').take(MAX_LINES) {
            if let Some((sign, rest)) = line.split_first() {
                input.read_line(*sign, rest);
            }
        }
        input
    }

    fn read_line(&mut self, sign: u8, rest: &'a [u8]) {
        let text = str::from_utf8(rest).unwrap_or_default();
        let name = match sign {
            b'f' => header::FORWARDED,
            b'x' => X_FORWARDED_FOR,
            b'r' => X_REAL_IP,
            b'c' => header::COOKIE,
            b'u' => header::USER_AGENT,
            b'p' => return self.peer = text.parse().unwrap_or(self.peer),
            b'h' => return self.hops = text.parse().unwrap_or(self.hops),
            b'n' => return self.networks.extend(text.parse::<IpNet>()),
            b'>' => {
                if let Some((style, text)) = rest.split_first() {
                    self.proxies.push(Proxy { style: *style, text });
                }
                return;
            }
            _ => return,
        };
        if let Ok(value) = HeaderValue::from_bytes(rest) {
            self.headers.append(name, value);
        }
    }
}

/// Formats as in RFC 7239, section 4, and as commonly used in `X-Forwarded-For`.
impl Proxy<'_> {
    fn client(self) -> IpAddr {
        if self.is(0) {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into()
        } else {
            Ipv4Addr::new(192, 0, 2, 7).into()
        }
    }

    const fn on_separate_line(self) -> bool {
        self.is(1)
    }

    fn address(self, address: IpAddr) -> Vec<u8> {
        let port = if self.is(2) { ":4711" } else { "" };
        let text = match address {
            IpAddr::V6(address) if self.is(2) || self.is(3) => format!("[{address}]{port}"),
            IpAddr::V6(address) => address.to_string(),
            IpAddr::V4(address) => format!("{address}{port}"),
        };
        if self.is(4) { format!(" {text}\t").into() } else { text.into() }
    }

    fn parameters(self, address: IpAddr) -> Vec<u8> {
        let port = if self.is(2) { ":4711" } else { "" };
        let node = match address {
            IpAddr::V6(address) => format!("[{address}]{port}"),
            IpAddr::V4(address) => format!("{address}{port}"),
        };
        let token = address.is_ipv4() && port.is_empty() && !self.is(3);
        let node = if token { node.into() } else { self.quoted(node.as_bytes()) };
        let host = [b"host=", &*self.quoted(self.text)].concat();
        let name = if self.is(4) { b"For=" } else { b"for=" };
        let node = [name, &*node].concat();
        if self.is(5) {
            [&host, &b";"[..], &node].concat()
        } else {
            [&node, &b";proto=https;"[..], &host].concat()
        }
    }

    /// Quotes a text. Characters are escaped with backslashes, either all of them or only if needed.
    fn quoted(self, text: &[u8]) -> Vec<u8> {
        let mut quoted = vec![b'"'];
        for byte in text.iter().filter(|byte| **byte == b'\t' || **byte >= 0x20 && **byte != 0x7f) {
            if self.is(6) || matches!(byte, b'"' | b'\\') {
                quoted.push(b'\\');
            }
            quoted.push(*byte);
        }
        quoted.push(b'"');
        quoted
    }

    const fn is(self, bit: u8) -> bool {
        self.style >> bit & 1 == 1
    }
}
