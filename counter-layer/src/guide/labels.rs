//! Labels: where requests come from, and what sends them.
//!
//! A page has a counter by its route. What requests have in common beside their pages is a [`Label`](crate::Label): the site
//! that visitors came from, the campaign of a link, the kind of device and of browser, the language, and whatever a closure
//! finds. Each value has a counter, and each request one value of each label, so that a label adds up to `hits`:
//!
//! ```
//! # use counter_core::{Counters, MemoryStore};
//! use counter_layer::{AccessCounterLayer, Label};
//!
//! # let counters = Counters::builder(MemoryStore::new()).build()?;
//! let layer = AccessCounterLayer::new(counters.recorder()).labels([
//!     Label::referrer().own_host("example.org"),
//!     Label::campaign(),
//!     Label::device(),
//!     Label::browser(),
//!     Label::language(),
//! ])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Lines of a log count the same, where the log has the headers: the combined format has `Referer` and `User-Agent`, and
//! `%{Accept-Language}i` adds the third. Records have `referrer`, `user_agent` and `language`.
//!
//! # Who has a place
//!
//! Values come from outside, and a client can make up a million of them. So a label has 2,000 places, or
//! fewer by [`Builder::label_places`](counter_core::Builder::label_places). While there are free places, every value gets one.
//! After that, a value takes the place of the rarest value if, in this hour and the last, it is known to have had at least 10
//! hits, 1 in 2,000 of all hits, and twice as many as the rarest. The rest is `(other)`. In a test with 1,000,000 made-up
//! values, half of all requests, each real value with 0.1 % of the hits kept its place, and no value missed more than
//! 0.06 % of the hits.
//!
//! On a site with few visits, a client reaches these numbers easily, so the turnover is limited: a quarter of the places
//! can pass to other values at once, and then 16 of 2,000 in an hour. A process therefore leaves at most 48,580 values of a
//! label in a store that keeps days for 120 days. A read covers 50,000 values. If several processes leave more, it returns
//! the top ones, with [`is_partial`](counter_core::visits::LabelRanking::is_partial) set.
//!
//! How much the counts may be off is told with them: a value has its count, or up to
//! [`missed`](counter_core::visits::LabelRanking::missed) more. That is 0 as long as all values have places, which is always so for
//! devices, browsers and languages of real clients. The bound holds for whole hours, and for every shorter range that of the
//! hours in which it lies. It adds up over instances.
//!
//! # Countries
//!
//! A proxy such as Cloudflare says the country in a header, as in the example of [`from_fn`](crate::Label::from_fn). Without
//! one, a file of MaxMind (GeoLite2 Country, which MaxMind gives to those who register) tells it of an address, by
//! the crate `maxminddb`. The layer comes with neither:
//!
//! ```
//! # mod maxminddb {
//! #     pub struct Reader; pub struct Found;
//! #     impl Reader {
//! #         pub fn open_readfile(_: &str) -> Result<Self, std::io::Error> { Ok(Self) }
//! #         pub fn lookup(&self, _: std::net::IpAddr) -> Result<Found, std::io::Error> { Ok(Found) }
//! #     }
//! #     impl Found { pub fn decode_path(&self, _: &[&str]) -> Result<Option<String>, std::io::Error> { Ok(Some("CH".into())) } }
//! #     macro_rules! of_path { ($($part:literal),*) => { [$($part),*] } }
//! #     pub(crate) use of_path as path;
//! # }
//! use counter_layer::Label;
//! use maxminddb::{Reader, path};
//!
//! let countries = Reader::open_readfile("GeoLite2-Country.mmdb")?;
//! let country = Label::from_fn("country", move |head| {
//!     let found = countries.lookup(head.peer()?).ok()?;
//!     let code: Option<String> = found.decode_path(&path!["country", "iso_code"]).ok()?;
//!     code.map(Into::into)
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`peer`](crate::RequestHead::peer) is the other end of the connection. Behind a proxy of your own that is the proxy, and the address of
//! the client is in the header that it writes, such as `X-Real-IP`. The address is looked up and dropped: the counters are
//! `label:country:CH` and the like. A look-up walks a tree in memory, with some ten to thirty reads of it, and its answer is an
//! allocation of two bytes here. The file is 8 to 10 MB, which `open_readfile` has in memory, and it is renewed twice a week: a country that has
//! moved is a country that is wrong until the process is started again.
//!
//! # Consumers of an API
//!
//! The value is stored and shown, so return the *name* of a key, and never the key:
//!
//! ```
//! use std::collections::HashMap;
//!
//! use counter_layer::Label;
//!
//! // From where the keys are kept.
//! let names: HashMap<String, String> = [("3f9a…".to_owned(), "billing".to_owned())].into();
//! let consumer = Label::from_fn("consumer", move |head| {
//!     let key = head.headers.get("x-api-key")?.to_str().ok()?;
//!     // A key that is not known is not shown, either.
//!     Some(names.get(key).map_or("unknown", String::as_str).to_owned().into())
//! });
//! ```
//!
//! # What labels cost
//!
//! - A request: that of `labelled` in `BENCHMARKS.md` for two of them. What is found is put together on the stack, so a value
//!   that has a place costs no allocation. Each label has a lock, which is taken twice, for some 50 ns.
//! - A flush: an increment for each value that occurred in that second, and precision, as for a page.
//! - In the process: up to 700 KB for each label, once 2,000 values and as many again have come.
//! - In the store: a value is a counter, and takes what [a counter takes](counter_core::guide::scale), until its last sample
//!   has left retention. Its lifetime total is removed with that sample.
//! - All values of a label are in one shard of the store, which is that of its name.
//!
//! # What is kept of visitors
//!
//! The value, and nothing beside it: of a referrer the host, of a user agent the kind of device and browser, of the languages
//! the first. Neither counts visitors. A host in the form of an address is `(other)`, and so is a campaign with an `@`. But a campaign is
//! a text that somebody chose: one that is another for each recipient of a letter names that recipient, and should
//! not be sent as `utm_campaign`.
