//! Labels: properties that requests to different pages can share.

mod text;
mod value;
mod host;
mod query;
mod groups;
mod referrer;
mod language;
mod country;
#[cfg(feature = "geo")]
mod geo;
mod client;
mod late;
mod source;
mod noted;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use counter_core::CounterName;
use http::HeaderName;

use crate::closure::Closure;
use crate::identity::{Address, RequestHead};
use crate::rules::{Rules, RulesBuilder, RulesError};
#[cfg(feature = "geo")]
pub use geo::{CountryDatabase, CountryDatabaseError};
use groups::Groups;
pub use groups::{SourceGroup, SourceKind};
pub use host::{InternalHost, InternalHostError};
use late::{Late, Missing};
pub(crate) use late::{LateHead, When};
pub(crate) use noted::Labels;
use query::{CAMPAIGN, CONTENT, MEDIUM, TERM};
use source::Source;

/// A property of requests, e.g. the referring site. Values are counted separately, e.g. in
/// `label:referrer:example.com`.
///
/// | label | counters | source |
/// |---|---|---|
/// | [`referrer`](Self::referrer) | `label:referrer:example.com` | the host in `Referer`, otherwise the source in the query |
/// | [`campaign`](Self::campaign) | `label:campaign:spring` | `utm_campaign` in the query, otherwise the source |
/// | [`medium`](Self::medium), [`content`](Self::content), [`term`](Self::term) | `label:medium:email` etc. | `utm_medium`, `utm_content`, `utm_term` |
/// | [`device`](Self::device) | `label:device:` `desktop`, `mobile`, `tablet`, `tv`, `console`, `bot` | the user agent |
/// | [`browser`](Self::browser) | `label:browser:firefox` etc., `label:browser:bot` | the user agent |
/// | [`bot`](Self::bot) | `label:bot:GPTBot` | the user agent |
/// | [`language`](Self::language) | `label:language:de` | the first language in `Accept-Language` |
/// | [`country`](Self::country) | `label:country:CH` | a header set by a content delivery network, or the address in a database |
/// | [`source`](Self::source) | `label:source:Google` | for views, the query or the host in `Referer`, by the name that people use |
/// | [`address`](Self::address) | `label:address:/articles/17` | for views, the path |
/// | [`not_found`](Self::not_found) | `label:not_found:/old` | the path, if the response status is 404 or 410 |
/// | [`broken_link`](Self::broken_link) | `label:broken_link:/old example.com` | the path and the host in `Referer` |
/// | [`from_fn`](Self::from_fn) | `label:plan:free` | a closure |
///
/// A counted request has exactly one value per label, so a label adds up to `hits`. Labels of views and of missing
/// pages only count those. `(none)` is used for requests with no value, and `(other)` for invalid values, and for rare values
/// if there are too many. A label can hold 2,000 values, and values with at least 0.1 % of the hits are always
/// included. See [`LabelValues`](counter_core::visits::LabelValues) for the effect of scanners sending made-up
/// values; in this case an error bound is returned with the counts.
///
/// Only these values are stored; the address, query and user agent of a request are not, and paths only if you count
/// addresses or missing pages. See [the
/// guide](crate::guide::labels) for API keys, and the cost of labels.
///
/// ```
/// # use counter_core::{Counters, MemoryStore};
/// use counter_layer::{AccessCounterLayer, Label};
///
/// # use axum::{Router, routing::get};
/// # use tower::ServiceExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut counters = Counters::builder(MemoryStore::new()).build()?;
/// let layer = AccessCounterLayer::new(counters.recorder())
///     .labels([Label::referrer().internal_host("example.org".parse()?), Label::language()])?;
/// # let app: Router = Router::new().route("/", get(async || "home")).layer(layer);
/// # for referrer in ["https://news.example.com/item?id=7", "https://example.org/about"] {
/// #     let request = http::Request::get("/").header("referer", referrer).header("accept-language", "de-CH");
/// #     app.clone().oneshot(request.body(axum::body::Body::empty())?).await?;
/// # }
/// // A visitor comes from https://news.example.com/item?id=7, and another from a page of this site.
/// counters.flush().await?;
///
/// let names = ["label:referrer:news.example.com", "label:referrer:(none)", "label:language:de"];
/// let names = names.map(|name| name.parse().expect("a name"));
/// assert_eq!(counters.stats().lifetimes(&names).await?, [1, 1, 2]);
/// # Ok(())
/// # }
/// ```
#[must_use = "labels do nothing unless added to a layer"]
pub struct Label {
    name: Cow<'static, str>,
    source: Source,
    by_page: bool,
    people: bool,
    min_hits: NonZeroU32,
}

/// The name of [`Label::bot`].
pub const BOT_LABEL: &str = "bot";

const ADDRESS_LABEL: &str = CounterName::VIEW_LABELS[0];

/// The name of [`Label::source`].
pub const SOURCE_LABEL: &str = CounterName::VIEW_LABELS[1];

impl Label {
    /// Counts the site a visitor came from: the host in the `Referer` header, in lower case, with `www.` and
    /// the port removed.
    ///
    /// Apps and mails send no referrer. In this case, `utm_source`, `ref` or `source` in the query is used, with the
    /// limits of a [campaign](Self::campaign). If it is a URL or a domain, the host counts.
    ///
    /// IP addresses and invalid hosts count as `(other)`. You should exclude the hosts of your site via
    /// [`internal_host`](Self::internal_host), because pages of a site link to each other.
    pub const fn referrer() -> Self {
        Self::new(Cow::Borrowed("referrer"), Source::Referrer { internal: Vec::new() })
    }

    /// Ignores referrers with this host or a subdomain, e.g. `www.example.org` for `example.org`: these
    /// requests count as `(none)`. This does not affect other labels.
    pub fn internal_host(mut self, host: InternalHost) -> Self {
        if let Source::Referrer { internal } | Source::Late(Late::Group { internal, .. }) = &mut self.source {
            internal.push(host);
        }
        self
    }

    /// Counts where the people come from who [view](crate::AccessCounterLayer::views) a page, by the names that people
    /// use.
    ///
    /// | view | value |
    /// |---|---|
    /// | from `www.google.de` or the Google app | `Google` |
    /// | from `l.facebook.com` | `Facebook` |
    /// | from `blog.example`, which is not [known](SourceGroup) | `blog.example` |
    /// | with `utm_source=Newsletter` in the query, from any site | `Newsletter` |
    /// | with `ref=hn` or `source=hackernews`, from any site | `Hacker News` |
    /// | from an [internal host](Self::internal_host), or without a source | `(none)` |
    ///
    /// The text in the query has the limits of a [campaign](Self::campaign). This label enables views, and adds up to
    /// them instead of `hits`. The hosts are the values of [`referrer`](Self::referrer).
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// use counter_layer::{AccessCounterLayer, Label};
    ///
    /// # use axum::{Router, routing::get};
    /// # use tower::ServiceExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder()).labels([Label::source(), Label::address()])?;
    /// # let app: Router = Router::new().route("/articles/{id}", get(async || "text")).layer(layer);
    /// # for (method, agent) in [("GET", "Firefox/140.0"), ("GET", "Googlebot/2.1"), ("HEAD", "Firefox/140.0")] {
    /// #     let request = http::Request::builder().method(method).uri("/articles/17?utm_content=a");
    /// #     let request = request.header("user-agent", format!("Mozilla/5.0 Gecko {agent}"));
    /// #     let request = request.header("referer", "https://www.google.de/");
    /// #     app.clone().oneshot(request.body(axum::body::Body::empty())?).await?;
    /// # }
    /// // A person follows a link on https://www.google.de to `/articles/17`; a bot reads the page as well.
    /// counters.flush().await?;
    ///
    /// let names = ["hits", "view:hits", "label:source:Google", "label:address:/articles/17"];
    /// let names = names.map(|name| name.parse().expect("a name"));
    /// assert_eq!(counters.stats().lifetimes(&names).await?, [3, 1, 1, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn source() -> Self {
        let groups = Box::new(Groups::default());
        Self::new(Cow::Borrowed(SOURCE_LABEL), Source::Late(Late::Group { internal: Vec::new(), groups }))
    }

    /// Counts the paths of [views](crate::AccessCounterLayer::views), such as `/articles/17`, by page: the values of the
    /// page `/articles/{id}` are its addresses.
    ///
    /// A path is [normalised](crate::Rules#paths), so it has no query and no matrix parameters. A path with more than 120
    /// bytes counts as `(other)`. This label enables views, and adds up to them. Half of the places are reserved for
    /// paths with a second view, so a scan of made-up paths can't take all of them.
    ///
    /// A path can contain personal data, e.g. a name or a token. You should name the routes that do in
    /// [`except_paths`](Self::except_paths) or [`except_if`](Self::except_if), and consider
    /// [`min_hits`](Self::min_hits). See [`source`](Self::source) for an example.
    pub fn address() -> Self {
        let source = Source::Late(Late::Address(Box::default()));
        Self::new(Cow::Borrowed(ADDRESS_LABEL), source).by_page()
    }

    /// Does not keep the [addresses](Self::address) that match any of these patterns, like
    /// [`RulesBuilder::exclude`](crate::RulesBuilder::exclude): their views count as `(other)`. This replaces earlier
    /// patterns, and does not affect other labels.
    ///
    /// ```
    /// use counter_layer::Label;
    ///
    /// let address = Label::address().except_paths(["/reset/{token}", "/u/*"])?;
    /// # Ok::<(), counter_layer::RulesError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a pattern is invalid, or if two patterns match the same paths.
    pub fn except_paths(mut self, patterns: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, RulesError> {
        if let Source::Late(Late::Address(private)) = &mut self.source {
            let exclude = |rules: RulesBuilder, pattern: _| rules.exclude(AsRef::<str>::as_ref(&pattern));
            let rules = patterns.into_iter().fold(Rules::builder(), exclude);
            private.paths = Some(rules.build()?);
        }
        Ok(self)
    }

    /// Does not keep the [address](Self::address) of a view if this closure returns `true` or panics: the view counts as
    /// `(other)`. It is called for requests that may be views, before the inner service, and should only access memory.
    /// This does not affect other labels.
    ///
    /// ```
    /// use counter_layer::Label;
    ///
    /// let address = Label::address().except_if(|head| head.headers.contains_key("authorization"));
    /// ```
    pub fn except_if(
        mut self,
        is_private: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        if let Source::Late(Late::Address(private)) = &mut self.source {
            private.closure = Some(Box::new(Closure::new("Label::except_if", is_private)));
        }
        self
    }

    /// Counts the campaign of the link: the value of `utm_campaign` in the request query. If it is missing or blank, the
    /// first of `utm_source`, `ref` and `source` is used.
    ///
    /// A value can have at most 100 characters, and at most 185 bytes. It is decoded once and trimmed, and white space is
    /// merged. Otherwise it is kept as sent, with any punctuation. These values count as `(other)`:
    ///
    /// - Values that may identify a person: mail and IP addresses, phone numbers with a `+`, UUIDs, and words of at
    ///   least 20 letters and digits that alternate four times, like a hash or an access token.
    /// - Control characters, and characters that can't be seen. Joiners and variants are kept in emoji and in scripts
    ///   that need them.
    /// - Text in parentheses, which is reserved.
    pub const fn campaign() -> Self {
        Self::new(Cow::Borrowed("campaign"), Source::Query(CAMPAIGN))
    }

    /// Counts the medium of the link, e.g. `email`: the value of `utm_medium`, with the limits of a
    /// [campaign](Self::campaign).
    pub const fn medium() -> Self {
        Self::new(Cow::Borrowed("medium"), Source::Query(MEDIUM))
    }

    /// Counts which of several links of a campaign was followed, e.g. `banner`: the value of `utm_content`, with the
    /// limits of a [campaign](Self::campaign).
    pub const fn content() -> Self {
        Self::new(Cow::Borrowed("content"), Source::Query(CONTENT))
    }

    /// Counts the search term of an ad: the value of `utm_term`, with the limits of a [campaign](Self::campaign).
    pub const fn term() -> Self {
        Self::new(Cow::Borrowed("term"), Source::Query(TERM))
    }

    /// Counts the kind of device: `desktop`, `mobile`, `tablet`, `tv` or `console`, and `bot` for
    /// [bots](crate::guide::visitors#bots).
    ///
    /// Recent iPads identify as a desktop.
    pub const fn device() -> Self {
        Self::new(Cow::Borrowed("device"), Source::Device)
    }

    /// Counts the browser family: `chrome`, `safari`, `firefox`, `edge`, `opera`, `samsung`, `uc`, `yandex`,
    /// `vivaldi`, `duckduckgo` or `internet-explorer`, and `bot` for bots.
    ///
    /// Browsers that identify as another browser count as such, e.g. Brave counts as Chrome. A browser in an app counts as
    /// the browser of the system, i.e. as Safari on iOS and as Chrome on Android.
    pub const fn browser() -> Self {
        Self::new(Cow::Borrowed("browser"), Source::Browser)
    }

    /// Counts bots by product name, e.g. `GPTBot`, `Googlebot`, `AhrefsBot` or `curl`.
    ///
    /// Known bots are listed by [`Bot::all`](crate::Bot::all), with the operator and the purpose. People count as
    /// `(none)`, and bots with no known name as `(other)`.
    pub fn bot() -> Self {
        Self::new(Cow::Borrowed(BOT_LABEL), Source::Bot(Box::default()))
    }

    /// Counts the preferred language: the first language in `Accept-Language`, with the region removed, e.g.
    /// `de`.
    pub const fn language() -> Self {
        Self::new(Cow::Borrowed("language"), Source::Language)
    }

    /// Counts the country of the client: the code (ISO 3166-1 alpha-2) in a header that a proxy sets, in upper case, e.g.
    /// `CH`.
    ///
    /// | network | header |
    /// |---|---|
    /// | Cloudflare | `cf-ipcountry` |
    /// | Amazon CloudFront | `cloudfront-viewer-country`, if the origin request policy includes it |
    /// | Vercel | `x-vercel-ip-country` |
    /// | Google App Engine | `x-appengine-country` |
    /// | Fastly | any header that you set to `client.geo.country_code` |
    ///
    /// The header is only used if the request was forwarded by a trusted proxy, because other clients can set it to
    /// anything. `client` contains the trusted proxies, like the [identity](crate::Identity::forwarded). A request
    /// that bypassed them counts as `(none)`, and so does an unknown country (`XX`, `ZZ`) and the Tor network (`T1`).
    ///
    /// ```
    /// use counter_layer::{Forwarded, Identity, Label};
    /// use http::{HeaderName, HeaderValue};
    ///
    /// let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    /// let country = Label::country(HeaderName::from_static("cf-ipcountry"), client);
    /// ```
    pub fn country(header: HeaderName, client: Address) -> Self {
        Self::new(Cow::Borrowed("country"), Source::Country { header, client: Box::new(client) })
    }

    /// Counts the country of the visitor, as a code of two letters, by looking up the client address in a database.
    ///
    /// `client` determines the address, like the [identity](crate::Identity::forwarded). An address that is not known or
    /// not in the database counts as `(none)`. Logs and records count the same if they contain the address. This label
    /// has the same name as [`country`](Self::country).
    ///
    /// ```no_run
    /// use counter_layer::{CountryDatabase, Identity, Label};
    ///
    /// let database = CountryDatabase::open("dbip-country-lite.mmdb")?;
    /// let country = Label::country_from(&database, Identity::peer());
    /// // Every minute, or when a new version has been downloaded:
    /// database.reload()?;
    /// # Ok::<(), counter_layer::CountryDatabaseError>(())
    /// ```
    #[cfg(feature = "geo")]
    #[cfg_attr(docsrs, doc(cfg(feature = "geo")))]
    pub fn country_from(database: &CountryDatabase, client: Address) -> Self {
        let source = Source::Database { database: database.clone(), client: Box::new(client) };
        Self::new(Cow::Borrowed("country"), source)
    }

    /// Counts the paths of missing pages, i.e. of requests with the response status 404 or 410.
    ///
    /// | request | value |
    /// |---|---|
    /// | `GET /old%20page?id=7` | `/old%20page` |
    /// | `GET /a/../caf%c3%a9;jsessionid=7` | `/caf%C3%A9`, as [normalised](crate::Rules#paths) for rules |
    /// | a path with more than 120 bytes | `(other)` |
    ///
    /// A missing page also counts if no rule matches: in `hits`, but not as a page. Other requests that do not match are
    /// still `unmatched`, and excluded requests never count. A path that is not normal needs an allocation. Clients
    /// choose the paths, so half of the places are reserved for paths with a second hit. A path can contain personal
    /// data, e.g. the token in a link from a mail, so you should consider [`min_hits`](Self::min_hits).
    ///
    /// ```
    /// # use counter_core::{Counters, MemoryStore};
    /// use counter_layer::{AccessCounterLayer, Label};
    ///
    /// # use axum::{Router, routing::get};
    /// # use tower::ServiceExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let labels = [Label::not_found(), Label::broken_link()];
    /// let layer = AccessCounterLayer::new(counters.recorder()).labels(labels)?;
    /// # let app = Router::new().route("/", get(async || "home")).fallback(async || http::StatusCode::NOT_FOUND).layer(layer);
    /// # for path in ["/", "/old"] {
    /// #     let request = http::Request::get(path).header("referer", "https://news.example/item?id=7");
    /// #     app.clone().oneshot(request.body(axum::body::Body::empty())?).await?;
    /// # }
    /// // A visitor follows a link from https://news.example to `/old`, which does not exist.
    /// counters.flush().await?;
    ///
    /// let names = ["label:not_found:/old", "label:broken_link:/old news.example"];
    /// let names = names.map(|name| name.parse().expect("a name"));
    /// assert_eq!(counters.stats().lifetimes(&names).await?, [1, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn not_found() -> Self {
        Self::new(Cow::Borrowed("not_found"), Source::Late(Late::Missing(Missing::Path)))
    }

    /// Counts broken links: the path of a [missing page](Self::not_found), and the host of the page with the link,
    /// separated by a space.
    ///
    /// Includes links on your own pages. A request without a referring host counts as `(none)`.
    pub const fn broken_link() -> Self {
        Self::new(Cow::Borrowed("broken_link"), Source::Late(Late::Missing(Missing::Link)))
    }

    /// Stores a value only after this number of hits, in this hour and the previous hour of this process. Earlier hits
    /// count as `(other)`.
    ///
    /// A value that contains personal data, like the token in a link, is usually sent by a single person.
    pub const fn min_hits(mut self, hits: NonZeroU32) -> Self {
        self.min_hits = hits;
        self
    }

    /// Counts the value returned by a closure, or `(none)` if it returns `None`.
    ///
    /// The closure is called once for every request that is not excluded by the rules, before the inner
    /// service; it should only access memory. If it panics, the request counts as `(other)`. The value is
    /// stored and displayed, so it must not contain an address, a secret like an API key, or any other
    /// personal data.
    ///
    /// ```
    /// use counter_layer::Label;
    ///
    /// // Set by the proxy, depending on the account.
    /// let plan = Label::from_fn("plan", |head| head.headers.get("x-plan")?.to_str().ok().map(Into::into));
    /// ```
    pub fn from_fn(
        name: impl Into<Cow<'static, str>>,
        value: impl for<'a> Fn(&RequestHead<'a>) -> Option<Cow<'a, str>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.into(), Source::Closure(Box::new(Closure::new("Label::from_fn", value))))
    }

    const fn new(name: Cow<'static, str>, source: Source) -> Self {
        Self { name, source, by_page: false, people: false, min_hits: NonZeroU32::MIN }
    }

    /// Counts people by value and day, too. They are the visitors of counters such as `label:source:Google`: see
    /// [`Stats::uniques_by_counter`](counter_core::Stats::uniques_by_counter), or `/api/labels` with `people=true`.
    ///
    /// A value takes about 300 bytes in Redis for each day with a few people, and up to 14 KB for a day with thousands: see
    /// [`guide::scale`](counter_core::guide::scale).
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_layer::{AccessCounterLayer, Label};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder()).labels([Label::source().people()])?;
    /// # drop(layer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn people(mut self) -> Self {
        self.people = true;
        self
    }

    /// Counts the values for each page too, and thereby the pages for each value, e.g. in
    /// `label:referrer@:/articles/{id} = example.com`.
    ///
    /// Use [`Stats::label_of_page`](counter_core::Stats::label_of_page) to read the values of a page, and
    /// [`Stats::pages_of_value`](counter_core::Stats::pages_of_value) to read the pages of a value. A label can
    /// hold 10,000 pairs of a page and a value. The hits of all other pairs are reported as the rest of the page,
    /// along with an error bound: see [`LabelValues::by_page`](counter_core::visits::LabelValues::by_page).
    ///
    /// ```
    /// # use counter_core::{CounterName, Counters, MemoryStore, Precision, Timestamp};
    /// use counter_layer::{AccessCounterLayer, Label};
    ///
    /// # use axum::{Router, routing::get};
    /// # use tower::ServiceExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder()).labels([Label::referrer().by_page()])?;
    /// # let app = Router::new().route("/", get(async || "home")).route("/about", get(async || "us")).layer(layer);
    /// # for (path, referrer) in [("/", "https://news.example.com/"), ("/about", "https://example.org/")] {
    /// #     let request = http::Request::get(path).header("referer", referrer);
    /// #     app.clone().oneshot(request.body(axum::body::Body::empty())?).await?;
    /// # }
    /// // A visitor follows a link from https://news.example.com to the home page.
    /// counters.flush().await?;
    ///
    /// let (hour, now, home) = (Precision::HOUR, Timestamp::now(), CounterName::new("/")?);
    /// let range = now.minus(3600)..now.plus(1);
    /// let top = counters.stats().label_of_page("referrer", &home, hour, range, 10).await?;
    /// assert_eq!(top.values, [("news.example.com".to_owned(), 1)]);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn by_page(mut self) -> Self {
        self.by_page = true;
        self
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Label").field("name", &self.name).finish_non_exhaustive()
    }
}
