//! Visitors: how to identify visitors, and how personal data is handled.
//!
//! A visitor is an opaque 128-bit number. It is a keyed hash of some part of the request, it raises a single register in the
//! sketches of the counters, and it is not kept after that. The examples use two helpers: `visitors(identity, requests)`
//! sends the requests through a layer and returns the uniques of `hits`, and `from(peer, headers)` is a request from this
//! peer address, with the user agent `FIREFOX` unless the headers include another.
//!
//! # The default
//!
//! By default a visitor is the combination of the peer address and the user agent. For IPv6 only the first 64 bits are used,
//! because a household has a /64, and devices change the remaining bits at will.
//!
//! ```
//! # use std::convert::Infallible;
//! # use counter_core::visitor::VisitorKey;
//! # use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//! # use counter_layer::{AccessCounterLayer, Identity};
//! # use http::{Request, Response};
//! # use tower::{Layer, ServiceExt, service_fn};
//! # const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
//! # fn from(peer: &str, headers: &[(&str, &str)]) -> Request<()> {
//! #     let mut request = Request::get("/");
//! #     if !headers.iter().any(|(name, _)| *name == "user-agent") {
//! #         request = request.header("user-agent", FIREFOX);
//! #     }
//! #     for (name, value) in headers {
//! #         request = request.header(*name, *value);
//! #     }
//! #     let mut request = request.body(()).expect("a request");
//! #     let peer: std::net::IpAddr = peer.parse().expect("an address");
//! #     request.extensions_mut().insert(std::net::SocketAddr::new(peer, 1000));
//! #     request
//! # }
//! # async fn visitors(identity: impl Into<Identity>, requests: [Request<()>; 2]) -> u64 {
//! #     let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
//! #     let layer = AccessCounterLayer::new(counters.recorder()).identity({
//! #         // For 1 in 16,384 pairs, two random ids share a register.
//! #         identity.into().key(VisitorKey::new([7; 16]))
//! #     }).expect("an identity");
//! #     for request in requests {
//! #         let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//! #         service.oneshot(request).await.expect("infallible");
//! #     }
//! #     counters.flush().await.expect("a store in memory");
//! #     let (hits, day) = ("hits".parse().expect("a name"), Precision::DAY);
//! #     let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
//! #     counters.stats().uniques(&[hits], day, range).await.expect("a store in memory").visitors
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let of = async |one, other| visitors(Identity::peer(), [one, other]).await;
//! let safari = [("user-agent", "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko)")];
//!
//! assert_eq!(of(from("192.0.2.1", &[]), from("192.0.2.1", &[])).await, 1);
//! assert_eq!(of(from("192.0.2.1", &[]), from("192.0.2.2", &[])).await, 2);
//! assert_eq!(of(from("192.0.2.1", &[]), from("192.0.2.1", &safari)).await, 2);
//! assert_eq!(of(from("2001:db8::1", &[]), from("2001:db8::2", &[])).await, 1);
//! assert_eq!(of(from("2001:db8::1", &[]), from("2001:db8:0:1::1", &[])).await, 2);
//!
//! // Other sources: see below.
//! let with = |cookie| from("192.0.2.1", &[("cookie", cookie)]);
//! let cookie = || Identity::cookie("visitor");
//! assert_eq!(visitors(cookie(), [with("visitor=a"), with("theme=dark; visitor=a")]).await, 1);
//! assert_eq!(visitors(cookie(), [with("visitor=a"), with("visitor=b")]).await, 2);
//! assert_eq!(visitors(cookie(), [with("theme=dark"), with("visitor=")]).await, 0);
//! assert_eq!(visitors(Identity::none(), [with("visitor=a"), with("visitor=b")]).await, 0);
//! let curl = from("192.0.2.1", &[("user-agent", "curl/8.5.0")]);
//! assert_eq!(visitors(Identity::issued_cookie("visitor"), [with("theme=dark"), curl]).await, 1);
//! # Ok(())
//! # }
//! ```
//!
//! The server must store the peer address in the request. For axum, use
//! `into_make_service_with_connect_info::<SocketAddr>()`; other servers can insert a `SocketAddr` extension. If the address
//! is missing, the request counts, but does not have a visitor. People behind the same address with the same browser count as
//! a single visitor, and a person using two browsers counts as two.
//!
//! # Bots
//!
//! Uniques count people. A bot request is counted like any other request, but it does not have a visitor, for any identity,
//! and a cookie will not be issued. The ledger counts these requests as `bots`, which is part of `recorded`, and
//! [`Facet::Agent`](crate::Facet) counts bots as a series. Facets don't count visitors.
//!
//! A client is considered a bot if it identifies as a bot, or if it does not identify as a browser or an app:
//!
//! - The user agent contains a word used by bots like `bot`, `crawl`, `monitor` or `headless`, a web or mail address, or a
//!   host name. If it names an Android device, only addresses are considered, because there are phones with names like `M bot
//!   51`.
//! - It has a comment that browsers don't have: it is `compatible` but has a modern engine, or ends in a name with no
//!   version.
//! - It names one of about 2,300 known [bots](crate::Bot), which can also be [counted by name](crate::Label::bot).
//! - It is missing, or does not name a browser or its engine, an app platform, a phone, a television or a console.
//!
//! A user agent that is encoded like a URL is decoded. The comparison ignores case, and anything past the first 1,024 bytes. A program pretending to be a browser will count as a
//! browser. The words and names were selected with one half of the entries in these lists, other lists, and patterns of
//! `crawlerdetect`. Then a few names were added from the other half. These are the results for the other half:
//!
//! | list | bots | detected as bots (without names) | browsers | detected as browsers |
//! |---|--:|--:|--:|--:|
//! | `device-detector` 6.5.1, without apps, libraries and feed readers | 675 | 99.6 %, before 98.8 % (98.4) | 16,993 | 99.9 % |
//! | `crawlerdetect` 0.4.2 | 1,857 | 99.1 %, before 99.0 % (97.8) | 82,847 | 99.7 % |
//! | `user-agents` 2.1.198, `fake-useragent` 2.2.0 | | | 902 | 100 % |
//!
//! The remaining bots look like a browser, or are mail programs. In the first list, 99.4 % of 311 bots with a known operator
//! get the right name, or the name of another bot of this operator. Of the apps, which usually don't name an engine, 82 %
//! count as people. Only the user agent is considered, because access logs don't have anything else.
//!
//! If the clients of your service are programs, use [`bots_are_visitors`](crate::AccessCounterLayer::bots_are_visitors) to
//! count bots as visitors too. If your application has better information, e.g. from a proxy in front, set a
//! [`classify_agent`](crate::AccessCounterLayer::classify_agent) closure instead.
//!
//! ```
//! # use std::convert::Infallible;
//! # use counter_core::visitor::VisitorKey;
//! # use counter_core::visits::Agent;
//! # use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//! # use counter_layer::AccessCounterLayer;
//! # use http::{Request, Response};
//! # use tower::{Layer, ServiceExt, service_fn};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agents = [
//!     "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
//!     "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
//!     "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2) Chrome/138.0.0.0",
//!     "curl/8.5.0", // does not name an engine
//!     "",
//! ];
//! let counted = async |set: fn(AccessCounterLayer) -> AccessCounterLayer| {
//!     let mut counters = Counters::builder(MemoryStore::new()).build()?;
//!     let layer = set(AccessCounterLayer::new(counters.recorder()));
//! #     let layer = layer.identity(counter_layer::Identity::default().key(VisitorKey::new([7; 16])))?;
//!     for agent in agents {
//! #         let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//!         let mut request = Request::get("/").header("user-agent", agent).body(())?;
//!         // …from the same address
//! #         request.extensions_mut().insert(std::net::SocketAddr::from(([192, 0, 2, 1], 1000)));
//! #         service.oneshot(request).await?;
//!     }
//!     counters.flush().await?;
//!     let requests = counters.stats().ledger().requests;
//! #     let (hits, day) = (["hits".parse()?], Precision::DAY);
//! #     let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
//!     let uniques = counters.stats().uniques(&hits, day, range).await?.visitors;
//!     Ok::<_, Box<dyn std::error::Error>>((requests.recorded, requests.bots, uniques))
//! };
//!
//! assert_eq!(counted(|layer| layer).await?, (5, 4, 1));
//! assert_eq!(counted(|layer| layer.bots_are_visitors()).await?, (5, 4, 5));
//! assert_eq!(counted(|layer| layer.classify_agent(|_| Agent::Human)).await?, (5, 0, 5));
//! # Ok(())
//! # }
//! ```
//!
//! # Other sources
//!
//! - [`Identity::peer`](crate::Identity::peer): the default; you can change the [prefix length](crate::Address::ipv6_prefix)
//!   or [ignore the user agent](crate::Address::without_user_agent).
//! - [`Identity::forwarded`](crate::Identity::forwarded): an address written by proxies, see below.
//! - [`Identity::cookie`](crate::Identity::cookie): a cookie set by your service.
//! - [`Identity::issued_cookie`](crate::Identity::issued_cookie): a cookie with a random id, set by the layer and valid for
//!   365 days by default (see [`max_age`](crate::IssuedCookie::max_age)). It is not issued to bots, or for requests ignored
//!   by the rules. A client that does not keep cookies will be a new visitor with every request, and so will any browser over
//!   plain HTTP unless [`insecure`](crate::IssuedCookie::insecure) is set. With
//!   [`only_returned`](crate::IssuedCookie::only_returned), a visitor counts when the cookie is sent back, i.e. from the
//!   second request; people viewing just a single page will then not be counted as visitors.
//! - [`Identity::header`](crate::Identity::header): a header. Only a trusted party should be able to set it.
//! - [`Identity::extension`](crate::Identity::extension): an extension inserted by an outer layer, e.g. an account.
//! - [`Identity::from_fn`](crate::Identity::from_fn): a closure that is passed the request head.
//! - [`Identity::none`](crate::Identity::none): don't count visitors.
//!
//! If the source is missing in a request, the request counts without a visitor and is `unidentified` in the ledger; we don't
//! fall back to another source. If it is missing in all requests, you will get a [hint](crate::guide#hints). There are two
//! exceptions: if there are fewer entries than hops, the peer is the client, and if the issued cookie is missing, this is a
//! new visitor.
//!
//! # Behind proxies
//!
//! A proxy appends the address it received the request from. Thus the right end of the header is written by your proxies, but
//! the left end might be written by any client. The header is read from the right, up to the limit of your trust: either a
//! number of [hops](crate::ForwardedAddress::trusted_hops), or all hosts in some
//! [networks](crate::ForwardedAddress::trusted_networks). Entries further left are ignored.
//!
//! ```
//! # use std::convert::Infallible;
//! # use counter_core::visitor::VisitorKey;
//! # use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//! # use counter_layer::{AccessCounterLayer, Identity};
//! # use http::{Request, Response};
//! # use tower::{Layer, ServiceExt, service_fn};
//! # const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
//! # fn from(peer: &str, headers: &[(&str, &str)]) -> Request<()> {
//! #     let mut request = Request::get("/");
//! #     if !headers.iter().any(|(name, _)| *name == "user-agent") {
//! #         request = request.header("user-agent", FIREFOX);
//! #     }
//! #     for (name, value) in headers {
//! #         request = request.header(*name, *value);
//! #     }
//! #     let mut request = request.body(()).expect("a request");
//! #     let peer: std::net::IpAddr = peer.parse().expect("an address");
//! #     request.extensions_mut().insert(std::net::SocketAddr::new(peer, 1000));
//! #     request
//! # }
//! # async fn visitors(identity: impl Into<Identity>, requests: [Request<()>; 2]) -> u64 {
//! #     let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
//! #     let layer = AccessCounterLayer::new(counters.recorder()).identity({
//! #         // For 1 in 16,384 pairs, two random ids share a register.
//! #         identity.into().key(VisitorKey::new([7; 16]))
//! #     }).expect("an identity");
//! #     for request in requests {
//! #         let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//! #         service.oneshot(request).await.expect("infallible");
//! #     }
//! #     counters.flush().await.expect("a store in memory");
//! #     let (hits, day) = ("hits".parse().expect("a name"), Precision::DAY);
//! #     let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
//! #     counters.stats().uniques(&[hits], day, range).await.expect("a store in memory").visitors
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use counter_layer::Forwarded;
//! let one_hop = || Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
//! let network = "10.0.0.0/8".parse()?;
//! let ours = || Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_networks([network]);
//! let proxied = |entries| from("10.0.0.1", &[("x-forwarded-for", entries)]);
//!
//! let spoofed = || [proxied("198.51.100.1, 192.0.2.1"), proxied("198.51.100.2, 192.0.2.1")];
//! assert_eq!(visitors(one_hop(), spoofed()).await, 1);
//! assert_eq!(visitors(ours(), spoofed()).await, 1);
//! assert_eq!(visitors(one_hop(), [proxied("192.0.2.1"), proxied("192.0.2.2")]).await, 2);
//! assert_eq!(visitors(ours(), [proxied("192.0.2.1"), proxied("192.0.2.1, 10.0.0.2")]).await, 1);
//!
//! // Bypassing the proxies: hops trust any peer, but networks do not.
//! let direct = |entry| from("203.0.113.5", &[("x-forwarded-for", entry)]);
//! assert_eq!(visitors(one_hop(), [direct("192.0.2.1"), direct("192.0.2.2")]).await, 2);
//! assert_eq!(visitors(ours(), [direct("192.0.2.1"), direct("192.0.2.2")]).await, 1);
//!
//! // An invalid address is not a visitor.
//! assert_eq!(visitors(one_hop(), [proxied("unknown"), proxied("192.0.2.1")]).await, 1);
//! # Ok(())
//! # }
//! ```
//!
//! You should use hops only if clients can't bypass the proxies, and make sure that the number is correct: if it is too high
//! by one, clients can choose the address.
//!
//! # Which identity to use for which proxy
//!
//! In this table, `X` is short for `Identity::forwarded(Forwarded::X_FORWARDED_FOR)`. If clients might bypass the proxy, use
//! [`trusted_networks`](crate::ForwardedAddress::trusted_networks) with the proxy network instead of hops. For a chain of two
//! proxies, use `trusted_hops(2)` or the networks of both.
//!
//! | in front of the service | headers | identity |
//! |---|---|---|
//! | nothing | | [`Identity::peer()`](crate::Identity::peer), the default |
//! | nginx | none by default; set `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;` to append the client address | `X.trusted_hops(1)` |
//! | Caddy | `X-Forwarded-For`; drops the header sent by the client unless the client is in `trusted_proxies` | `X.trusted_hops(1)` |
//! | Traefik | `X-Forwarded-For`; drops the header sent by the client unless the client is in `forwardedHeaders.trustedIPs` | `X.trusted_hops(1)` |
//! | HAProxy | none by default; set `option forwardfor` to add a second `X-Forwarded-For` after the header sent by the client | `X.trusted_hops(1)` |
//! | HAProxy with `option forwarded` | `Forwarded` | `Identity::forwarded(Forwarded::RFC7239).trusted_hops(1)` |
//! | Cloudflare | appends to `X-Forwarded-For`; `CF-Connecting-IP` has just the client | `X.trusted_networks(…)` with the networks published by Cloudflare, since the address of your service can be discovered |
//! | Cloudflare, then nginx as above | both append to `X-Forwarded-For` | `X.trusted_hops(2)` if nginx only admits Cloudflare |
//! | AWS ALB | appends to `X-Forwarded-For` | `X.trusted_hops(1)` if the security group only admits the balancer, otherwise the subnets of the balancer |
//! | AWS NLB, and other TCP load balancers | none: the peer address, or the PROXY protocol, which the server must support | [`Identity::peer()`](crate::Identity::peer) |
//! | AWS API Gateway, in front of Lambda | the address is in the event | [`Identity::extension`](crate::Identity::extension), as in `examples/frameworks/src/bin/lambda.rs` |
//!
//! To check your setup, visit the service from two networks and compare the uniques.
//!
//! # Salts and epochs
//!
//! The key of the hash is called a salt. For addresses, and for closures that are not stable, the salt changes with the
//! epoch. By default an epoch is a day, and starts with the visitor days, i.e. at midnight UTC, or with a different
//! [`utc_offset`](counter_core::Builder::utc_offset); you can change the length via
//! [`salt_epoch`](counter_core::Builder::salt_epoch). An address is the same visitor within an epoch, but a different visitor
//! in the next epoch. A request in flight when the epoch ends will be counted in the last second of this epoch, so that the
//! visitor does not count again on the next day. Without the salt, an id can't be recomputed, or compared with a list of
//! addresses. It is not shown in `Debug` either:
//!
//! ```
//! use counter_core::visitor::VisitorKey;
//! use counter_core::{Counters, MemoryStore};
//!
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let salt = counters.recorder().salt()?;
//! let ann = salt.visitor(&[b"192.0.2.1"]);
//! assert_eq!(ann, salt.visitor(&[b"192.0.2.1"]));
//! assert_eq!(format!("{ann:?}"), "VisitorId(..)");
//!
//! let (today, tomorrow) = (VisitorKey::random(), VisitorKey::random());
//! assert_ne!(today.visitor(&[b"192.0.2.1"]), tomorrow.visitor(&[b"192.0.2.1"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Using a secret
//!
//! The store contains both the salt and the registers of the visitors hashed with it. With
//! [`Builder::secret`](counter_core::Builder::secret), the hash key is derived from the salt and a
//! [`Secret`](counter_core::Secret), which is never stored. Then access to the store is not enough to try addresses, and with
//! just the secret, an epoch can't be recovered if the salt was deleted. All instances must use the same secret. It is also
//! used to sign issued cookies.
//!
//! ```
//! use counter_core::{Counters, MemoryStore, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::from_bytes([7; 16]); // readers of the store must not be able to read this
//! let store = MemoryStore::new();
//! let mut here = Counters::builder(store.clone()).secret(&secret).build()?;
//! let mut there = Counters::builder(store.clone()).secret(&secret).build()?;
//! let mut thief = Counters::builder(store).build()?;
//! let salts = [here.recorder().salt()?, there.recorder().salt()?, thief.recorder().salt()?];
//! for counters in [&mut here, &mut there, &mut thief] {
//!     counters.flush().await?;
//! }
//! let [here, there, thief] = salts.map(|salt| salt.visitor(&[b"192.0.2.1"]));
//! assert!(here == there && here != thief);
//! # Ok(())
//! # }
//! ```
//!
//! # Stable identities
//!
//! Cookies, headers, and closures declared as [`stable`](crate::ClosureIdentity::stable) identify the same person for years.
//! There is a single salt for these, and it does not change with the epoch, so if a visitor comes on Monday and Tuesday, the
//! uniques of both days include this visitor once. This also affects privacy: these visits are linked.
//!
//! With [`Identity::key`](crate::Identity::key) you can replace all salts with your key, for addresses too. In this case your
//! application is responsible for key rotation.
//!
//! # Visitor precisions
//!
//! By default visitors are counted in buckets of 3600 and 86400 seconds, with 120 buckets each; you can change this via
//! [`visitor_precisions`](counter_core::Builder::visitor_precisions). If a precision is coarser than the epoch, or not
//! aligned with it, a visitor would count once per epoch. Such a precision is rejected, either by `build`, or, if you
//! declared visitors as stable there, when you set an identity that is not stable.
//!
//! ```
//! use counter_core::{Counters, MemoryStore, Precision, Precisions};
//! use counter_layer::{AccessCounterLayer, Identity};
//!
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let grid = counters.stats().grid().clone();
//! let retained = grid.visitors.iter().map(|retained| (retained.precision.as_seconds(), retained.samples.get()));
//! assert_eq!(retained.collect::<Vec<_>>(), [(3600, 120), (86_400, 120)]);
//!
//! let weekly = Precisions::new([Precision::try_from(604_800)?])?;
//! let builder = Counters::builder(MemoryStore::new()).visitor_precisions(weekly);
//! assert!(builder.clone().build().is_err());
//!
//! let recorder = builder.stable_visitors().build()?.recorder();
//! assert!(AccessCounterLayer::new(recorder.clone()).identity(Identity::peer()).is_err());
//! assert!(AccessCounterLayer::new(recorder).identity(Identity::cookie("visitor")).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If you don't set an identity, the layer can't report this error; it counts without visitors instead. Uniques over multiple
//! epochs count an address once per epoch.
//!
//! # Multiple instances
//!
//! Instances with the same store share the salts. An instance starts with a random salt and offers it to the store with the
//! first flush; all instances use the salt that was offered first. The salt of the next epoch is fetched ahead of time, from
//! the middle of the current epoch. Requests don't have to wait for this.
//!
//! ```
//! use counter_core::{Counters, MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let mut here = Counters::builder(store.clone()).build()?;
//! let mut there = Counters::builder(store).build()?;
//! let (one, other) = (here.recorder().salt()?, there.recorder().salt()?);
//! assert_ne!(one.visitor(&[b"192.0.2.1"]), other.visitor(&[b"192.0.2.1"]));
//!
//! here.flush().await?;
//! there.flush().await?; // `Counters::run` starts with a flush
//! assert_eq!(one.visitor(&[b"192.0.2.1"]), other.visitor(&[b"192.0.2.1"]));
//! # Ok(())
//! # }
//! ```
//!
//! If the first flush is still pending, or if the store is unavailable for more than half an epoch, an instance uses a local
//! salt. A visitor seen with both the local and the shared salt will count twice in this epoch. An instance does not fetch a
//! salt again: if the store loses a salt, instances started later will use a different salt for the rest of the epoch, and
//! for stable identities until all instances are restarted. Hits are not affected by this.
//!
//! # Uniques are estimates
//!
//! The sketch is a HyperLogLog with 16,384 registers. A register holds the longest run of zeros in the visitor hashes
//! assigned to it, but we don't store a list of visitors. The standard error is below 1 %:
//!
//! ```
//! assert!(counter_core::sketch::STANDARD_ERROR < 0.01);
//! ```
//!
//! # What is stored
//!
//! | in the store | for how long |
//! |---|---|
//! | counts per counter and bucket | for the retention, by default 120 buckets; then removed by the cleaner |
//! | counter names from rules, templates and facets, and [label values](crate::guide::labels#privacy) | as long as there are samples or sketches |
//! | sketches per counter and visitor bucket | for the retention, by default 120 hours and 120 days, and four more |
//! | a sketch of the site per minute | for 19 minutes |
//! | sketches per day and value of a label that counts [people](crate::Label::people) | for the retention of days, and four more |
//! | the salt of an epoch | until the end of the next epoch |
//! | the salt for stable identities, if used | until you delete it |
//! | ids of limited clients, and tokens, if you use [limits](crate::guide::limit) or [`increment_once`](counter_core::window::WindowCounters::increment_once): keyed with a secret, and different in each window | for the window, and the number of windows kept after it |
//! | the sequence number of the last batch per process, with a random name | until the process is silent for 30 days |
//! | the number of the last batch with these minutes, with a random name | until the process is silent for an hour |
//!
//! Redis expires sketches and salts. A `MemoryStore` drops sketches when the cleaner runs, and salts when a salt is
//! requested.
//!
//! In memory, a process keeps recent counts and sketches, and the salts of two epochs; a salt is dropped when the salt of the
//! next epoch is fetched. Per salt it also keeps the registers of up to 16,384 recent visitors (128 KB), with part of a hash
//! used for lookups, until the salt is dropped. A label that counts people keeps as many registers by value. For the people of the last
//! minutes, it keeps the registers of the site. A layer caches the hashes of up to 4,096 recent user agents (64 KB) to
//! remember if these are bots, but does not keep anything about the clients. With rules, it also caches the hashes of up to
//! 4,096 recent paths (64 KB) and the decisions.
//!
//! # What is never stored or logged
//!
//! Addresses, user agents, cookies, other headers, accounts, queries and visitor ids are never stored or logged, and neither
//! are raw paths, except if you count [missing pages](crate::guide::labels#missing-pages).
//! The layer reads these while it classifies a request. The library logs store failures with counter names and numbers.
//! [`explain`](crate::Rules::explain) returns the given path, but does not store it.
//!
//! There are two closures that can change this. Counter names are stored, so if your
//! [`fallback`](crate::AccessCounterLayer::fallback) closure turns a path into a name, this path will be stored. And if your
//! application keeps the visitor passed to [`on_count`](crate::AccessCounterLayer::on_count), it stores an id, which by
//! default changes on the next day. Since the salt is in the store, you should hash such an id again with a key derived from
//! a [`Secret`](counter_core::Secret) if you want to keep it in the same store.
//!
//! # What the store reveals
//!
//! Someone with read access to Redis, to a snapshot, an append-only file or a backup, can learn the following:
//!
//! | | without a secret | with the same secret in all instances |
//! |---|---|---|
//! | unique visitors | as long as the salt of a day exists (two days; in backups and append-only files, as long as the files are kept): if an address with a user agent was probably among the visitors of a page in a given hour. Addresses can be tried, the whole IPv4 range within minutes | the number of visitors, and if the same register was raised in multiple sketches of a day |
//! | limits by identity, tokens, readers of the forum in the example | the ids need a secret: this is `Secret::process_local`, so the limit applies per instance, until a restart | the number of ids in a window, and the counts per id. No addresses, and no link between ids of different windows |
//! | unique counters, text dimensions | the data supplied by the application | the same |
//!
//! The secret is never stored, logged or part of a key. With both the store and the secret, addresses can be tried as in the
//! first column. For limits this is possible while the windows are kept (`keep`), and in files while the files exist.
//!
//! # Linkability
//!
//! - Visits in different epochs can't be linked if the identity is not stable and the salts are deleted: the remaining data
//!   does not show if two registers were raised by the same person.
//! - If you don't set a [secret](counter_core::Builder::secret), then as long as the salt of an epoch is in the store,
//!   someone with read access to the store can try an address with a user agent: the sketch of a page and an hour returns
//!   either "not here" or "probably here"; in a small sketch this is nearly certain. You should protect the store like a
//!   two-day access log. Note that Redis backups contain the salts of that day, and append-only files the salts of all days
//!   since the last rewrite. If you set a secret, this also requires the secret.
//! - Within an epoch, a visitor raises the same register in all sketches. If there is just a single visitor in a bucket,
//!   someone with read access to the store might find the same register elsewhere in this epoch, but can't identify the
//!   visitor.
//! - For a stable identity or an application key, all of this applies for as long as the salt or key exists, instead of an
//!   epoch. To end this, delete it and restart the instances using it.
//!
//! # Disabling visitors
//!
//! [`Identity::none`](crate::Identity::none) disables visitors for all counters. With
//! [`Rule::without_visitors`](crate::Rule::without_visitors), requests matched by this rule don't count visitors, in `hits`
//! either. Excluded requests don't count visitors either.
//!
//! ```
//! # use std::convert::Infallible;
//! # use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//! # use counter_layer::{AccessCounterLayer, Rule, Rules};
//! # use http::{Request, Response};
//! # use tower::{Layer, ServiceExt, service_fn};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let rules = Rules::builder()
//!     .rule(Rule::counter("clinic").pattern("/clinic/*").without_visitors())
//!     .exclude("/clinic/chat")
//!     .build()?;
//! let layer = AccessCounterLayer::new(counters.recorder()).rules(rules);
//! # for (path, peer) in [("/clinic/a", [192, 0, 2, 1]), ("/clinic/chat", [192, 0, 2, 2])] {
//! #     let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//! #     let mut request = Request::get(path).header("user-agent", "Gecko").body(())?;
//! #     request.extensions_mut().insert(std::net::SocketAddr::from((peer, 1000)));
//! #     service.oneshot(request).await?;
//! # }
//! # counters.flush().await?;
//! # let stats = counters.stats();
//! # let day = Precision::DAY;
//! # let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
//! # let uniques = async |name: &str| {
//! #     let counter = name.parse().expect("a name");
//! #     stats.uniques(&[counter], day, range.clone()).await.expect("a store").visitors
//! # };
//! // 192.0.2.1 requests /clinic/a, and 192.0.2.2 requests /clinic/chat.
//! assert_eq!(uniques("clinic").await, 0);
//! assert_eq!(uniques("hits").await, 0);
//! # Ok(())
//! # }
//! ```
