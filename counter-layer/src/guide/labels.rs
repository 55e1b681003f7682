//! Labels: where requests come from, and which clients send them.
//!
//! Routes are counted as pages. A [`Label`](crate::Label) counts a property that requests to different pages
//! can share: the referring site, the campaign of a link, the kind of device and browser, the name of a bot,
//! the language, or any value returned by a closure. Values are counted separately, and a request always has exactly one value
//! per label, so a label adds up to `hits`, or to the views if it only counts these:
//!
//! ```
//! # use counter_core::{Counters, MemoryStore};
//! use counter_layer::{AccessCounterLayer, Label};
//!
//! # let counters = Counters::builder(MemoryStore::new()).build()?;
//! let layer = AccessCounterLayer::new(counters.recorder()).labels([
//!     Label::referrer().internal_host("example.org".parse()?),
//!     Label::campaign(),
//!     Label::device(),
//!     Label::browser(),
//!     Label::bot(),
//!     Label::language(),
//! ])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Access logs are counted the same way if they contain the headers: the combined format has `Referer` and
//! `User-Agent`, and you can add the third with `%{Accept-Language}i`. JSON records have `referrer`,
//! `user_agent` and `language`. If a log or a record does not contain a header, its labels count `(not recorded)`.
//!
//! # Sources and addresses
//!
//! [`Label::source`](crate::Label::source) and [`Label::address`](crate::Label::address) answer where people come from and
//! what they read. Both only count [views](crate::AccessCounterLayer::views), so bots, errors and other methods are left
//! out, and they add up to `view:hits`. The hosts of a source such as `Google` are values of
//! [`Label::referrer`](crate::Label::referrer), see [`SourceGroup::of_host`](crate::SourceGroup::of_host).
//!
//! # Campaigns
//!
//! Values like `utm_campaign` are part of the links that you publish, so they are stored as you write them: `Summer '25: 50 %`
//! is a campaign, and so is an emoji. See [`Label::campaign`](crate::Label::campaign) for the values that count as
//! `(other)`. Not even equivalent spellings in Unicode are merged.
//!
//! | parameter | label |
//! |---|---|
//! | `utm_campaign` | [`campaign`](crate::Label::campaign) |
//! | `utm_source`, `ref`, `source` | [`referrer`](crate::Label::referrer) if there is no `Referer`; `campaign` if there is no `utm_campaign` |
//! | `utm_medium`, `utm_content`, `utm_term` | [`medium`](crate::Label::medium), [`content`](crate::Label::content), [`term`](crate::Label::term) |
//!
//! A scanner can also send values, but only those with enough hits get a place, and pages show them escaped.
//!
//! # How places are assigned
//!
//! Label values are sent by clients, and a client might make up a million values. So a label is limited to
//! 2,000 places, or fewer if you set [`Builder::label_places`](counter_core::Builder::label_places). As long
//! as there are free places, any value gets a place. After this, a value can replace the rarest value if, in
//! this hour and the previous hour, it had at least 10 known hits, 1 in 2,000 of all hits, and twice as many
//! as the rarest value. Remaining hits count as `(other)`. In a test with 1,000,000 made-up values in half of
//! the requests, real values with 0.1 % of the hits kept a place, and a value missed at most 0.06 % of the
//! hits.
//!
//! On a site with little traffic a client can reach these thresholds easily, so replacements are limited too:
//! a quarter of the places can be replaced immediately, and then 16 of 2,000 per hour. Thus a process leaves
//! at most 48,580 values per label in a store that keeps days for 120 days. A read covers up to 50,000
//! values. If multiple processes leave more values, the read returns the top values, with
//! [`is_partial`](counter_core::visits::LabelRanking::is_partial) set.
//!
//! A read also returns an error bound: the true count of a value is between the reported count and this count
//! plus [`missed`](counter_core::visits::LabelRanking::missed). The bound is 0 as long as all values have a
//! place, which is always true for devices, browsers and the languages of real clients. It applies to whole
//! hours; a shorter range has the bound of the hours it is part of. Bounds add up across instances.
//!
//! # By page
//!
//! [`Label::by_page`](crate::Label::by_page) also counts the pairs of a page and a value, so you can ask which
//! referrers a page has, and which pages a bot reads:
//!
//! ```
//! # use counter_core::{CounterName, Counters, MemoryStore, Precision, Timestamp};
//! # use http::{Request, Response};
//! # use tower::{Layer, ServiceExt, service_fn};
//! use counter_layer::{AccessCounterLayer, Label, Rule, Rules};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let layer = AccessCounterLayer::new(counters.recorder()).labels([Label::bot().by_page()])?;
//! # let layer = layer.rules(Rules::builder().rule(Rule::counter("/about").pattern("/about")).default_counter("/").build()?);
//! # for (path, agent) in [("/", "GPTBot/1.2"), ("/about", "GPTBot/1.2"), ("/about", "curl/8.5.0")] {
//! #     let service = layer.layer(service_fn(async |_| Ok::<_, std::convert::Infallible>(Response::new(()))));
//! #     service.oneshot(Request::get(path).header("user-agent", agent).body(())?).await?;
//! # }
//! // GPTBot reads `/` and `/about`, and curl reads `/about`.
//! counters.flush().await?;
//!
//! let (stats, hour, now) = (counters.stats(), Precision::HOUR, Timestamp::now());
//! let range = now.minus(3600)..now.plus(1);
//! let bots = stats.label_of_page("bot", &CounterName::new("/about")?, hour, range.clone(), 10).await?;
//! assert_eq!(bots.values, [("GPTBot".to_owned(), 1), ("curl".to_owned(), 1)]);
//! let pages = stats.pages_of_value("bot", "GPTBot", hour, range, 10).await?;
//! assert_eq!(pages.values, [("/".to_owned(), 1), ("/about".to_owned(), 1)]);
//! # Ok(())
//! # }
//! ```
//!
//! The dashboard shows the values on the page of a counter, and the pages on the page of a value. The API has
//! `api/labels?label=bot&counter=/about` and `api/labels/pages?label=bot&value=GPTBot`.
//!
//! A label has 10,000 places for pairs, which are assigned like those for values, or as many as you set by
//! [`Builder::label_pairs`](counter_core::Builder::label_pairs). Pages do not have `(other)`: the rest is the
//! difference between the hits of the page and those of its pairs. It contains pairs without a place, pairs whose
//! name would exceed 200 bytes, values that contain ` = ` or begin with `= `, invalid values, and hits from before pairs
//! were counted. A pair with at least 0.1 % of all hits gets a place. If you [forget](counter_core::Stats::forget) a page or a value, its pairs are removed, too.
//!
//! # Missing pages
//!
//! [`Label::not_found`](crate::Label::not_found) counts the paths of requests that end with 404 or 410, and
//! [`Label::broken_link`](crate::Label::broken_link) the same paths with the host that links there. The dashboard lists
//! both, so that you can fix the links or add redirects. Different spellings of a path are one page. With rules, a missing
//! page that does not match any rule counts in `hits`, through the layer as well as from a log.
//!
//! Scanners request thousands of paths that never existed. Only half of the places are given for a single hit,
//! so a scan that requests each path once can't take all places. A path can also contain personal data: a token, a mail address,
//! or the name of a file. Therefore these labels are not part of the defaults. With
//! [`min_hits`](crate::Label::min_hits), a path is only stored after this number of hits within one to two hours, so a
//! link that just one person has will not appear, unless this person requests it as often.
//!
//! # Countries
//!
//! If a content delivery network sends the country in a header, use [`country`](crate::Label::country). Otherwise
//! you can look up the address in a MaxMind database (GeoLite2 Country, available after registration) via the
//! crate `maxminddb`. Neither is included in this crate:
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
//! [`peer`](crate::RequestHead::peer) is the remote end of the connection. If the service is behind your
//! proxy, this is the proxy, and you need to read the client address from a header like `X-Real-IP` instead.
//! The address is just used for this lookup; the counters are `label:country:CH` and the like. A lookup reads
//! a tree in memory, with about ten to thirty reads, and in this example allocates two bytes. `open_readfile`
//! loads the whole file of 8 to 10 MB into memory. The file is updated twice a week, but the process will
//! only use the new data after a restart.
//!
//! # Bots by name
//!
//! [`Label::bot`](crate::Label::bot) counts bots by product, e.g. crawlers of AI companies and search engines,
//! feed readers, monitoring services and libraries. [`Bot`](crate::Bot) is the table of the known names, with
//! the operator and the [`Purpose`](crate::Purpose). The dashboard groups the names by purpose.
//!
//! ```
//! # use counter_core::{Counters, MemoryStore};
//! # use http::{Request, Response};
//! # use tower::{Layer, ServiceExt, service_fn};
//! use counter_layer::{AccessCounterLayer, Bot, Label};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut counters = Counters::builder(MemoryStore::new()).build()?;
//! let layer = AccessCounterLayer::new(counters.recorder()).labels([Label::bot()])?;
//! let agents = [
//!     "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)",
//!     "Mozilla/5.0 (compatible; NewCrawler/0.1)",
//!     "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
//! ];
//! # for agent in agents {
//! #     let service = layer.layer(service_fn(async |_| Ok::<_, std::convert::Infallible>(Response::new(()))));
//! #     service.oneshot(Request::get("/").header("user-agent", agent).body(())?).await?;
//! # }
//! // …each send a request
//! counters.flush().await?;
//! let names = ["label:bot:GPTBot", "label:bot:(other)", "label:bot:(none)"];
//! let names = names.map(|name| name.parse().expect("a name"));
//! assert_eq!(counters.stats().lifetimes(&names).await?, [1, 1, 1]);
//!
//! let bot = Bot::named("GPTBot").expect("a known bot");
//! assert_eq!((bot.operator(), bot.purpose().as_str()), (Some("OpenAI"), "AI training"));
//! # Ok(())
//! # }
//! ```
//!
//! The same table is used to [detect bots](crate::guide::visitors#bots), so a client with a name is always a
//! bot, unless a [`classify_agent`](crate::AccessCounterLayer::classify_agent) closure decides otherwise. If a
//! user agent has multiple names, the first is counted, but a bot wins over the library it uses. A request
//! can claim to be any bot; the address is not checked.
//!
//! # API consumers
//!
//! Values are stored and displayed, so you should return the *name* of a key, but never the key:
//!
//! ```
//! use std::collections::HashMap;
//!
//! use counter_layer::Label;
//!
//! // Read from the key store.
//! let names: HashMap<String, String> = [("3f9a…".to_owned(), "billing".to_owned())].into();
//! let consumer = Label::from_fn("consumer", move |head| {
//!     let key = head.headers.get("x-api-key")?.to_str().ok()?;
//!     // Don't expose unknown keys either.
//!     Some(names.get(key).map_or("unknown", String::as_str).to_owned().into())
//! });
//! ```
//!
//! # Cost
//!
//! - For a request: see `labelled` and `by_page` in `BENCHMARKS.md`, with two labels. Values are built on the stack, so a
//!   value that already has a place does not need an allocation. All labels share a lock, which a request
//!   takes once to count, but not to find one of the recent values.
//! - For a flush: an increment for each value seen in this second and each precision, like a page.
//! - People: a value with [people](crate::Label::people) has a sketch per day. People who were added recently are recognized by a
//!   table of 128 KB per label; others are sent again. Requests lock the labels at the same point, but for longer.
//! - Memory: up to 700 KB per label, when 2,000 values and as many again were seen. Pairs add up to 4 MB.
//! - Store: a value is a counter, and needs [the same space](counter_core::guide::scale), until all samples
//!   are past retention. The lifetime total is removed together with these samples.
//! - All values of a label are stored in the same shard, determined by the label name. Pairs are stored in the shard of
//!   the page.
//!
//! # Privacy
//!
//! A label stores just the value: for addresses and missing pages the path, for referrers the host, for user agents the kind of device and browser, for
//! languages the preferred language. A label that counts [people](crate::Label::people) has sketches of visitors by value and day, so
//! two values with the same small set of registers may have the same visitor. A host that is an IP address counts as
//! `(other)`, and so does a value in a query that looks like a mail address, an IP address, a phone number or a token. But
//! campaigns are free text: a campaign name that differs per recipient of a newsletter identifies the recipient, so you
//! should not send this as `utm_campaign`, `utm_source`, `ref` or `source`.
