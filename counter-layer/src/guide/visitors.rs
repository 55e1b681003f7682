//! Visitors: how they are told apart, and what is kept about them.
//!
//! A visitor is an opaque number of 128 bits. It is made from something in the request by a hash under a
//! secret key, raises one register in the sketches of its counters, and is forgotten. In the examples,
//! `visitors(identity, requests)` sends these requests through a layer and reads the uniques of `hits` back,
//! and `from(peer, headers)` is a request over a connection from that address, with the user agent `FIREFOX`
//! unless the headers have another one.
//!
//! # The default
//!
//! The address of the connection and the user agent identify a visitor. The first 64 bits of an IPv6 address
//! count: a household shares them, and a device changes the rest at will.
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
//! The server has to leave the address in the request: axum does so with
//! `into_make_service_with_connect_info::<SocketAddr>()`, other servers insert a `SocketAddr` extension. A
//! request without it counts, and has no visitor. People behind one address with the same browser count as
//! one, and one person with two browsers counts as two.
//!
//! # Bots
//!
//! Uniques are people: a request by a program is counted like any other, but has no visitor, whatever the
//! identity, and is given no cookie. The ledger has such requests as `bots`, which are a part of `recorded`,
//! and [`Facet::Agent`](crate::Facet) keeps them as a series. Facets have no visitors of their own.
//!
//! A client is a bot if its user agent says so, or does not say that it is a browser: it contains one of a
//! few words, such as `bot`, `crawl`, `spider` or a web address; or it names no browser engine; or it is
//! missing. Upper and lower case do not matter, and only the first 1,024 bytes do. Of the 2,118 user agents
//! in a public list of crawlers 97.2 % are recognized, and of 19,897 of browsers 0.08 % are taken for bots. A
//! bot that pretends to be a browser counts as one.
//!
//! [`bots_are_visitors`](crate::AccessCounterLayer::bots_are_visitors) counts bots as visitors, for services
//! whose clients are programs; and the closure of
//! [`classify_agent`](crate::AccessCounterLayer::classify_agent) decides where the application knows better.
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
//! - [`Identity::peer`](crate::Identity::peer): the default, with another [length of the
//!   prefix](crate::Address::ipv6_prefix) or [without the user agent](crate::Address::without_user_agent).
//! - [`Identity::forwarded`](crate::Identity::forwarded): an address that proxies wrote; see below.
//! - [`Identity::cookie`](crate::Identity::cookie): a cookie that the service itself sets.
//! - [`Identity::issued_cookie`](crate::Identity::issued_cookie): a cookie with a random id that the layer
//!   sets, for 365 days unless [`max_age`](crate::IssuedCookie::max_age) is set. Bots get none, and neither
//!   do excluded requests.
//! - [`Identity::header`](crate::Identity::header): a header that only a trusted proxy can write.
//! - [`Identity::extension`](crate::Identity::extension): an extension that a layer further out inserted,
//!   such as an account.
//! - [`Identity::from_fn`](crate::Identity::from_fn): a closure over the head of the request.
//! - [`Identity::none`](crate::Identity::none): no visitors.
//!
//! Where the source is missing from a request, the request counts without a visitor, and no other source is
//! tried. There are two exceptions: with fewer entries than hops the peer is the client, and a request
//! without its issued cookie is that of a new visitor.
//!
//! # Behind proxies
//!
//! Each proxy appends the address it was connected from, so the right end of the header is written by the
//! service's own proxies, and the left end may come from any client. It is read from the right, as far as it
//! is trusted: a number of [hops](crate::ForwardedAddress::trusted_hops), or all hosts of some
//! [networks](crate::ForwardedAddress::trusted_networks). Entries further left have no influence.
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
//! So use hops only where clients cannot bypass the proxies, and set the number right: with one too many the
//! client writes its own address.
//!
//! # Salts and epochs
//!
//! The key of the hash is called a salt. For addresses, and for closures that are not declared stable, each
//! epoch has a new one. An epoch is a day unless [`salt_epoch`](counter_core::Builder::salt_epoch) is set,
//! and begins with the days of the visitors: at midnight UTC unless there is a
//! [`utc_offset`](counter_core::Builder::utc_offset). The same address is the same visitor within an epoch,
//! and another one in the next. A request that is in progress when the epoch of its visitor ends counts in
//! its last second, so that no visitor counts twice on the next day. Without the salt an id can neither be
//! made again nor be tested against a list of addresses. Its `Debug` does not show it either:
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
//! The salt is in the store, beside the registers that were made with it. With
//! [`Builder::secret`](counter_core::Builder::secret) visitors are hashed under a key that is made from the
//! salt and a [`Secret`](counter_core::Secret), which goes to no store: then the store alone does not suffice
//! to test addresses, and the secret alone does not bring back an epoch whose salt is gone. All instances
//! need the same secret. It also signs the cookies that the layer issues.
//!
//! ```
//! use counter_core::{Counters, MemoryStore, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let secret = Secret::from_bytes([7; 16]); // from where nobody reads who reads the store
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
//! Cookies, a header, and a closure that is declared [`stable`](crate::ClosureIdentity::stable) identify the
//! same person for years. They have one salt, which does not change with the epoch, so that a visitor of
//! Monday and of Tuesday is one in the uniques of both days. That also has a meaning for privacy: those
//! visits are linked.
//!
//! [`Identity::key`](crate::Identity::key) takes the place of all salts, also for addresses: then the key
//! rotates only when its owner rotates it.
//!
//! # Which precisions visitors have
//!
//! The precisions are 3600 and 86400 seconds, with 120 buckets of each, unless
//! [`visitor_precisions`](counter_core::Builder::visitor_precisions) are set. A precision that is coarser
//! than the epoch, or begins at other times, would count every visitor once an epoch, so it is refused: by
//! `build`, and, where visitors were declared stable there, by an identity that is not.
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
//! A layer whose identity was never set cannot return that error: it counts without visitors. Uniques over
//! several epochs count an address once for each of them.
//!
//! # Several instances
//!
//! Instances over one store share its salts. Each begins with a random one of its own and offers it to the
//! store with the first flush; the first one offered becomes the salt of all. The salt of the next epoch is
//! fetched in the second half of the current one. No request waits for this.
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
//! Before the first flush, and when the store is unavailable for more than half an epoch, an instance counts
//! by its own salt. A visitor seen under that salt and under the shared one counts once more in that epoch.
//! An instance does not ask again for a salt that it has: when the store loses one, instances that start
//! later have another one, for the rest of the epoch, and for stable identities until all are restarted. Hits
//! are not affected by any of this.
//!
//! # Uniques are estimates
//!
//! A sketch is a HyperLogLog of 16,384 registers. It holds for each register the longest run of zeros
//! that any visitor's hash had there, and no list of visitors. Its standard error is under 1 %:
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
//! | the salt of stable identities, where there are any | until it is deleted |
//! | ids of limited visitors, and tokens, where there are [limits](crate::guide::limit) or [`increment_once`](counter_core::window::WindowCounters::increment_once): under a secret, others in each window | the window, and as many after it as are kept |
//! | the number of the last batch of each process, under a random name | until 30 days after the last batch |
//!
//! Redis expires sketches and salts by itself. A `MemoryStore` drops sketches when the cleaner runs, and
//! salts when it is asked for one.
//!
//! A process keeps in memory, besides counts and sketches of recent hits, the salts of two epochs; the salt
//! of the last one is dropped when that of the next one is fetched. Each layer keeps a hash of up to 4,096
//! recent user agents (64 KB), with whether it is a bot's, and nothing about their senders.
//!
//! # What is never stored or logged
//!
//! Addresses, user agents, cookies, other headers, accounts, queries, raw paths, visitor ids. The layer reads
//! them while it looks at a request, and keeps the number of a counter and the visitor's id until the request
//! is settled. The library logs trouble with the store, with names of counters and numbers.
//! [`explain`](crate::Rules::explain) returns the path of its argument, and keeps none. The name of a counter
//! is stored as it is: a closure of [`fallback`](crate::AccessCounterLayer::fallback) that makes a name from
//! a path stores that path. Likewise, an application that keeps the visitor of
//! [`on_count`](crate::AccessCounterLayer::on_count) stores an id that by default changes every day. Since
//! the salt is in the store, such an id should be hashed once more under a key of a
//! [`Secret`](counter_core::Secret) if it goes there too.
//!
//! # What can be linked
//!
//! - Visits of different epochs cannot, when the identity is not stable and the salts are gone: nothing that
//!   is left tells that two registers were raised by one person.
//! - Without a [secret](counter_core::Builder::secret), while the salt of an epoch is in the store, a reader
//!   of the store can test an address with a user agent: the sketch of a page and an hour answers "not here",
//!   or "probably here"; in a small sketch that is nearly certain. Protect the store as an access log of two
//!   days, and note that a backup of Redis has the salts of its day, and an append-only file those of all
//!   days since it was rewritten. With a secret, the secret is needed too.
//! - Within an epoch the same visitor raises the same register in every sketch. Where a bucket has one
//!   visitor, a reader of the store may find the same register raised elsewhere in that epoch, without
//!   knowing whose it is.
//! - Under a stable identity, or under a key, everything said here about an epoch holds for as long as the
//!   salt or the key exists. To end that, delete it and restart the instances that have it.
//!
//! # Leaving visitors out
//!
//! [`Identity::none`](crate::Identity::none) counts no visitors at all.
//! [`Rule::without_visitors`](crate::Rule::without_visitors) leaves them out of the rule's requests, under
//! `hits` as well. An excluded request leaves nothing of its visitor either.
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
