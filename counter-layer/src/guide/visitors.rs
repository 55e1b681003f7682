//! Visitors: how they are told apart, and what is kept about people.
//!
//! A visitor is an opaque number of 128 bits. It is made from something in the request by a hash under a secret key,
//! raises one register in the sketches of its counters, and is forgotten. In the examples, `visitors(identity, requests)`
//! sends these requests through a layer and reads the uniques of `hits` back, and `from(peer, headers)` is a request over
//! a connection from that address, with the user agent `FIREFOX` unless the headers have one.
//!
//! # The default
//!
//! The address of the connection and the user agent make a visitor. Of an IPv6 address the first 64 bits count: a
//! household has them, and a device changes the rest at will.
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
//! #         // Of two random ids, one pair in 16,384 has one register between them.
//! #         identity.into().key(VisitorKey::new([7; 16]))
//! #     }).expect("an identity");
//! #     for request in requests {
//! #         let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//! #         service.oneshot(request).await.expect("infallible");
//! #     }
//! #     counters.flush().await.expect("a store in memory");
//! #     let (hits, day) = ("hits".parse().expect("a name"), Precision::try_from(86_400).expect("a day"));
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
//! The server has to leave the address in the request: axum does with
//! `into_make_service_with_connect_info::<SocketAddr>()`, other servers insert a `SocketAddr` extension. A request without
//! one counts, and has no visitor. People behind one address with the same browser count as one visitor, and one person
//! with two browsers counts as two.
//!
//! # Bots
//!
//! Uniques are of people. A request that a program makes is counted like any other, but has no visitor, whatever the
//! identity, and is given no cookie. The ledger counts such requests as `bots`, which are a part of `recorded`, and
//! [`Facet::Agent`](crate::Facet) keeps them as a series. Facets have no visitors of their own.
//!
//! A client is a bot if it says so, or if it does not say that it is a browser or an app:
//!
//! - Its user agent contains a word of bots, such as `bot`, `crawl`, `monitor` or `headless`, an address of the web or of
//!   mail, or the name of a host. Where it names an Android device, only an address counts: makers call phones `M bot 51`.
//! - It notes something where a browser has nothing to note: it is `compatible` although it has a modern engine, or ends
//!   in a name without a version.
//! - It names no engine of browsers, no platform of apps, and no phone, television or console.
//! - There is no user agent.
//!
//! The case of letters does not matter, and neither does anything after the first 1,024 bytes. A program that pretends to
//! be a browser counts as one. The words were chosen with one half of each of these public lists, and the shares are those
//! of the other half:
//!
//! | list | bots | taken for bots | browsers | taken for browsers |
//! |---|--:|--:|--:|--:|
//! | `device-detector` 6.5.1, without apps, libraries and feed readers | 653 | 98.6 % | 17,286 | 99.8 % |
//! | `crawlerdetect` 0.4.2 | 1,867 | 97.7 % | 82,693 | 99.7 % |
//! | `crawler-user-agents` 1.60 | 1,081 | 99.0 % | | |
//!
//! Of the apps in the first, which have no engine as a rule, 82 % count as people. Only the user agent decides, since a
//! line of an access log has nothing else: a request counts the same whichever way it came.
//!
//! [`bots_are_visitors`](crate::AccessCounterLayer::bots_are_visitors) counts bots among the visitors, for a service whose
//! clients are programs. A closure of [`classify_agent`](crate::AccessCounterLayer::classify_agent) decides what is a bot where the
//! application knows better, such as by what the proxy in front found out.
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
//!     "curl/8.5.0", // names no engine
//!     "",
//! ];
//! let counted = async |set: fn(AccessCounterLayer) -> AccessCounterLayer| {
//!     let mut counters = Counters::builder(MemoryStore::new()).build()?;
//!     let layer = set(AccessCounterLayer::new(counters.recorder()));
//! #     let layer = layer.identity(counter_layer::Identity::default().key(VisitorKey::new([7; 16])))?;
//!     for agent in agents {
//! #         let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//!         let mut request = Request::get("/").header("user-agent", agent).body(())?;
//!         // …from one address
//! #         request.extensions_mut().insert(std::net::SocketAddr::from(([192, 0, 2, 1], 1000)));
//! #         service.oneshot(request).await?;
//!     }
//!     counters.flush().await?;
//!     let requests = counters.stats().ledger().requests;
//! #     let (hits, day) = (["hits".parse()?], Precision::try_from(86_400)?);
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
//! - [`Identity::peer`](crate::Identity::peer): the default, with another
//!   [length of the prefix](crate::Address::ipv6_prefix) or
//!   [without the user agent](crate::Address::without_user_agent).
//! - [`Identity::forwarded`](crate::Identity::forwarded): an address that proxies wrote: see below.
//! - [`Identity::cookie`](crate::Identity::cookie): a cookie that the service itself sets.
//! - [`Identity::issued_cookie`](crate::Identity::issued_cookie): a cookie with a random id that the layer sets, for 365
//!   days unless [`max_age`](crate::IssuedCookie::max_age) says otherwise. Bots get none, and neither do requests that the
//!   rules leave out. A client that keeps no cookies is a new visitor at each request, and so is every browser over plain
//!   HTTP unless [`insecure`](crate::IssuedCookie::insecure) is set. With
//!   [`only_returned`](crate::IssuedCookie::only_returned) a visitor counts from its second request on, when its cookie has
//!   come back: people who look at one page only are then not counted as visitors.
//! - [`Identity::header`](crate::Identity::header): a header, which only a trusted party may be able to write.
//! - [`Identity::extension`](crate::Identity::extension): an extension that a layer further out inserted, such as an
//!   account.
//! - [`Identity::from_fn`](crate::Identity::from_fn): a closure over the head of the request.
//! - [`Identity::none`](crate::Identity::none): no visitors at all.
//!
//! Where the source finds nothing, a request counts without a visitor, as `unidentified` in the ledger, and nothing else is
//! tried instead. A source that never finds anything is a [hint](crate::guide#hints). There are two
//! exceptions: with fewer entries than hops the peer is the client, and a request without its issued cookie is that of a
//! new visitor.
//!
//! # Behind proxies
//!
//! Each proxy appends the address that it received the request from, so the right end of the header is written by your
//! own proxies, and the left end by any client. The header is read from the right, as far as it is trusted: a number of
//! [hops](crate::ForwardedAddress::trusted_hops), or all hosts of these
//! [networks](crate::ForwardedAddress::trusted_networks). Entries further left change nothing.
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
//! #         // Of two random ids, one pair in 16,384 has one register between them.
//! #         identity.into().key(VisitorKey::new([7; 16]))
//! #     }).expect("an identity");
//! #     for request in requests {
//! #         let service = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(Response::new(())) }));
//! #         service.oneshot(request).await.expect("infallible");
//! #     }
//! #     counters.flush().await.expect("a store in memory");
//! #     let (hits, day) = ("hits".parse().expect("a name"), Precision::try_from(86_400).expect("a day"));
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
//! // Past the proxies: hops believe whoever connects, networks do not.
//! let direct = |entry| from("203.0.113.5", &[("x-forwarded-for", entry)]);
//! assert_eq!(visitors(one_hop(), [direct("192.0.2.1"), direct("192.0.2.2")]).await, 2);
//! assert_eq!(visitors(ours(), [direct("192.0.2.1"), direct("192.0.2.2")]).await, 1);
//!
//! // An entry that is no address is nobody.
//! assert_eq!(visitors(one_hop(), [proxied("unknown"), proxied("192.0.2.1")]).await, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Use hops only where no client can connect past the proxies, and set the number right: with one too many, the client
//! writes its own address.
//!
//! # What to set behind which proxy
//!
//! `X` is `Identity::forwarded(Forwarded::X_FORWARDED_FOR)`. Where a client could reach the service past the proxy, put
//! [`trusted_networks`](crate::ForwardedAddress::trusted_networks) with the proxy's own network in the place of hops; and
//! behind a chain of two, `trusted_hops(2)` or the networks of both.
//!
//! | in front of the service | what it sends | identity |
//! |---|---|---|
//! | nothing | | [`Identity::peer()`](crate::Identity::peer), the default |
//! | nginx | nothing, until `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;` appends the client to what it wrote itself | `X.trusted_hops(1)` |
//! | Caddy | `X-Forwarded-For`; what the client wrote is dropped unless it is one of the `trusted_proxies` | `X.trusted_hops(1)` |
//! | Traefik | `X-Forwarded-For`; what the client wrote is dropped unless it is one of the `forwardedHeaders.trustedIPs` | `X.trusted_hops(1)` |
//! | HAProxy | nothing, until `option forwardfor` adds an `X-Forwarded-For` of its own behind the client's | `X.trusted_hops(1)` |
//! | HAProxy with `option forwarded` | `Forwarded` | `Identity::forwarded(Forwarded::RFC7239).trusted_hops(1)` |
//! | Cloudflare | `X-Forwarded-For`, appended to; `CF-Connecting-IP` with the client alone | `X.trusted_networks(…)` with the networks that Cloudflare publishes, since anybody can find the service's own address |
//! | Cloudflare, then nginx as above | both append to `X-Forwarded-For` | `X.trusted_hops(2)` if nginx admits Cloudflare only |
//! | AWS ALB | `X-Forwarded-For`, appended to | `X.trusted_hops(1)` if the security group admits the balancer only, else its subnets |
//! | AWS NLB, and others that forward connections | nothing: the address of the connection, or the PROXY protocol, which the server has to read | [`Identity::peer()`](crate::Identity::peer) |
//! | AWS API Gateway, in front of Lambda | the address is in the event | [`Identity::extension`](crate::Identity::extension), as in `tests/strangers/src/bin/lambda.rs` |
//!
//! To see whether it is right, visit the service from two networks, and compare its uniques.
//!
//! # Salts and epochs
//!
//! The key of the hash is called a salt. For addresses, and for closures that are not marked as stable, each epoch has a
//! new one. An epoch is a day that begins when the days of the visitors do (at midnight UTC unless there is a
//! [`utc_offset`](counter_core::Builder::utc_offset)), unless [`salt_epoch`](counter_core::Builder::salt_epoch) was set. The
//! same address is the same visitor within an epoch, and another one in the next. A request in flight at the end of its
//! visitor's epoch counts in the last second of that epoch, so that no visitor counts twice on the next day. Without the
//! salt an id can neither be made again nor be compared with a list of addresses. Its `Debug` does not show it either:
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
//! # The owner's secret
//!
//! The salt lies in the store, beside the registers of the visitors that were hashed under it. With
//! [`Builder::secret`](counter_core::Builder::secret) visitors are hashed under a key that is made of the salt and a
//! [`Secret`](counter_core::Secret), which goes to no store. Then the store alone does not suffice to try addresses, and the
//! secret alone does not bring back an epoch whose salt is gone. All instances need the same secret. It also signs the
//! cookies that the layer issues.
//!
//! ```
//! use counter_core::{Counters, MemoryStore, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::from_bytes([7; 16]); // from a place that readers of the store cannot read
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
//! Cookies, a header, and a closure that is marked as [`stable`](crate::ClosureIdentity::stable) mean the same person for
//! years. They have one salt, which does not change with the epoch, so that a visitor of Monday and of Tuesday is one in
//! the uniques of both days. That is also what it means for privacy: those visits are linked.
//!
//! [`Identity::key`](crate::Identity::key) uses a key of the application in place of all salts, also for addresses: then
//! nothing rotates unless the application rotates it.
//!
//! # Which precisions visitors have
//!
//! Visitors have buckets of 3600 and 86400 seconds, 120 of each, unless
//! [`visitor_precisions`](counter_core::Builder::visitor_precisions) says otherwise. In a precision that is coarser than the
//! epoch, or begins at other times, each visitor would count once for each epoch. Such a precision is refused: by `build`,
//! and, where the visitors were declared stable there, by an identity that is not.
//!
//! ```
//! use counter_core::{Counters, MemoryStore, Precision, Precisions};
//! use counter_layer::{AccessCounterLayer, Identity};
//!
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let grid = counters.stats().grid().clone();
//! let kept = grid.visitors.iter().map(|kept| (kept.precision.as_seconds(), kept.samples.get()));
//! assert_eq!(kept.collect::<Vec<_>>(), [(3600, 120), (86_400, 120)]);
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
//! A layer whose identity was never set cannot report that; it counts without visitors then. Uniques over several epochs
//! count an address once for each of them.
//!
//! # Several instances
//!
//! Instances over one store share its salts. Each begins with a random one of its own and offers it to the store with the
//! first flush; the first that was offered is used by all. The salt of the next epoch is fetched from the middle of the
//! current one on. No request waits for that.
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
//! there.flush().await?; // `Counters::run` begins with a flush
//! assert_eq!(one.visitor(&[b"192.0.2.1"]), other.visitor(&[b"192.0.2.1"]));
//! # Ok(())
//! # }
//! ```
//!
//! Before the first flush, and when the store is away for more than half an epoch, an instance counts by its own salt. A
//! visitor that is seen under that salt and under the shared one counts once more in that epoch. An instance does not ask
//! again for a salt that it has: when the store loses one, instances that start later have another, for the rest of the
//! epoch, and for stable identities until all are restarted. Hits are not affected by any of this.
//!
//! # Uniques are estimates
//!
//! A sketch is a HyperLogLog of 16,384 registers. Each register holds the longest run of zeros that any visitor's hash
//! had there; there is no list of visitors. The standard error is under 1 %:
//!
//! ```
//! assert!(counter_core::sketch::STANDARD_ERROR < 0.01);
//! ```
//!
//! # What is stored
//!
//! | in the store | for how long |
//! |---|---|
//! | the count of each counter and bucket | its retention, by default 120 buckets; the cleaner removes it |
//! | the names of counters: of rules, templates and facets | as long as they have samples or sketches |
//! | the sketch of each counter and bucket of visitors | its retention, by default 120 hours and 120 days |
//! | the salt of an epoch | to the end of the epoch after it |
//! | the salt of stable identities, where there are any | until it is deleted by hand |
//! | ids of limited clients, and tokens, where there are [limits](crate::guide::limit) or [`increment_once`](counter_core::window::WindowCounters::increment_once): under a secret, others in each window | the window, and as many after it as are kept |
//! | the number of the last batch of each process, under a random name | until it was silent for 30 days |
//!
//! Redis expires sketches and salts by itself. A `MemoryStore` drops sketches when the cleaner passes, and salts when it is
//! asked for one.
//!
//! In addition to counts and sketches of what it has recently counted, a process keeps the salts of two epochs in memory;
//! that of the last one is dropped when that of the next one is fetched. With a salt it keeps the registers of up to 16,384
//! recent visitors (128 KB), each with a part of a hash by which it is found again, until the salt is dropped. Each layer keeps a hash of up to 4,096 recent user
//! agents (64 KB), with whether it is a bot's, and nothing about the clients that sent them; and one with rules a hash of
//! up to 4,096 recent paths (64 KB), with what the rules decide.
//!
//! # What is never stored or logged
//!
//! Addresses, user agents, cookies, other headers, accounts, queries, raw paths and visitor ids are neither stored nor
//! logged. The layer reads them while it looks at a request, and keeps the number of a counter and a visitor's register until the
//! request is settled. The library logs trouble with the store, with names of counters and numbers.
//! [`explain`](crate::Rules::explain) returns the path that it was asked about, and keeps none.
//!
//! Two closures of the application can change that. The name of a counter is stored as it is, so a closure of
//! [`fallback`](crate::AccessCounterLayer::fallback) that makes a name out of a path stores that path. And an application that keeps
//! the visitor of [`on_count`](crate::AccessCounterLayer::on_count) stores an id, by default one that is another on the
//! next day. Since the salt lies in the store, such an id should be hashed once more under a key of a
//! [`Secret`](counter_core::Secret) if it goes there too.
//!
//! # What a reader of the store learns
//!
//! A reader of Redis, its snapshot, its append-only file or a backup learns what lies in it, and no more:
//!
//! | | without a secret | with the owner's secret in all instances |
//! |---|---|---|
//! | unique visitors | while the salt of a day is there (two days; in backups and append-only files as long as those are kept): whether an address with a user agent was probably among the visitors of a page and hour. Addresses can be tried, all of IPv4 in minutes | how many there were, and that one register was raised in several sketches of a day |
//! | limits by identity, tokens, readers of the forum in the example | the ids need a secret: one of the process (`Secret::of_this_process`), with which each instance limits for itself, until it restarts | how many ids there were in a window, and what each counted there. No address, and nothing that links an id of one window to one of another |
//! | unique counters, dimensions as text | what the application put in | the same |
//!
//! The secret is in no store, log or key. With both the store and the secret, addresses can be tried as in the first
//! column. For limits that is possible while their windows are kept (`keep`), and in files for as long as the files are.
//!
//! # What can be linked
//!
//! - Visits of different epochs cannot be linked when the identity is not stable and the salts are gone: nothing that is
//!   left says that two registers were raised by one person.
//! - Without a [secret](counter_core::Builder::secret), while the salt of an epoch is in the store, a reader of the store can
//!   try an address with a user agent: the sketch of a page and an hour says "not here", or "probably here"; in a small
//!   sketch that is nearly certain. Guard the store like an access log of two days, and mind that a backup of Redis has the
//!   salts of its day, and an append-only file those of all days since it was rewritten. With a secret, the reader needs
//!   that too.
//! - Within an epoch the same visitor raises the same register in every sketch. Where a bucket has one visitor, a reader of
//!   the store may find the same register raised elsewhere in that epoch, without knowing whose it is.
//! - Under a stable identity, or a key of the application, all that is said here of an epoch holds for as long as the salt
//!   or the key exists. Deleting it, and restarting the instances that have it, ends that.
//!
//! # Leaving visitors out
//!
//! [`Identity::none`](crate::Identity::none) counts no visitors anywhere.
//! [`Rule::without_visitors`](crate::Rule::without_visitors) leaves them out of the rule's requests, under `hits` as well. An
//! excluded request leaves nothing of its visitor either.
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
//! # let day = Precision::try_from(86_400)?;
//! # let range = Timestamp::now().minus(86_400)..Timestamp::now().plus(1);
//! # let uniques = async |name: &str| {
//! #     let counter = name.parse().expect("a name");
//! #     stats.uniques(&[counter], day, range.clone()).await.expect("a store").visitors
//! # };
//! // 192.0.2.1 asks for /clinic/a, and 192.0.2.2 for /clinic/chat.
//! assert_eq!(uniques("clinic").await, 0);
//! assert_eq!(uniques("hits").await, 0);
//! # Ok(())
//! # }
//! ```
