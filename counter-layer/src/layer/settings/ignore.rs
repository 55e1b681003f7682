//! Requests to ignore, such as the visits of the owner of a site.

use std::fmt;

use http::HeaderName;
use ipnet::IpNet;

use crate::closure::Closure;
use crate::identity::{Address, RequestHead, cookie_value};

/// Requests that do not count, e.g. because they come from the people who run the site.
///
/// These requests are `ignored.own` in the [ledger](counter_core::visits::Ignored) if they would count otherwise. This
/// also applies to log lines, if the log contains the address or the headers.
///
/// ```
/// # use counter_core::{Counters, MemoryStore};
/// use counter_layer::{AccessCounterLayer, Identity, Ignore};
///
/// # use axum::{Router, routing::get};
/// # use tower::ServiceExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let counters = Counters::builder(MemoryStore::new()).build()?;
/// let office = "198.51.100.0/24".parse()?;
/// let layer = AccessCounterLayer::new(counters.recorder())
///     .ignore([Ignore::networks(Identity::peer(), [office]), Ignore::cookie()]);
/// let app: Router = Router::new().route("/", get(async || "home")).layer(layer);
/// # for cookie in ["a=1", "access-counter-ignore=1"] {
/// #     let request = http::Request::get("/").header("cookie", cookie).body(axum::body::Body::empty())?;
/// #     app.clone().oneshot(request).await?;
/// # }
/// // A visit, and a visit of a browser with the cookie.
/// let requests = counters.stats().ledger().requests;
/// assert_eq!((requests.recorded, requests.ignored.own), (1, 1));
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing unless added to a layer"]
pub struct Ignore(Condition);

enum Condition {
    Networks(Address, Vec<IpNet>),
    Header(HeaderName),
    Cookie,
    Closure(Box<FromFn>),
}

type FromFn = Closure<dyn Fn(&RequestHead<'_>) -> bool + Send + Sync>;

impl Ignore {
    /// The name of the cookie that marks a browser.
    pub const COOKIE: &str = "access-counter-ignore";

    /// Ignores clients in these networks. `client` determines the client address, so behind proxies, choose the
    /// trusted proxies as for the [identity](crate::Identity::forwarded).
    pub fn networks(client: Address, networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(Condition::Networks(client, networks.into_iter().collect()))
    }

    /// Ignores requests with this header, e.g. set by a monitoring service or by a proxy for signed-in staff.
    ///
    /// A client that can send the header can hide its own visits.
    pub const fn header(name: HeaderName) -> Self {
        Self(Condition::Header(name))
    }

    /// Ignores browsers that send the cookie [`access-counter-ignore`](Self::COOKIE) with any value.
    ///
    /// The dashboard of `counter-admin` sets and removes it, if the option `ignore_switch` is set.
    pub const fn cookie() -> Self {
        Self(Condition::Cookie)
    }

    /// Ignores requests for which a closure returns `true`.
    ///
    /// The closure is called for requests that are not excluded by the rules, before the inner service; it should only
    /// access memory. If it panics, the request counts.
    ///
    /// ```
    /// use counter_layer::Ignore;
    ///
    /// /// An extension inserted by an outer layer that checks the login.
    /// #[derive(Clone)]
    /// struct Staff;
    ///
    /// let staff = Ignore::from_fn(|head| head.extensions.get::<Staff>().is_some());
    /// ```
    pub fn from_fn(is_ignored: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Condition::Closure(Box::new(Closure::new("Ignore::from_fn", is_ignored))))
    }

    pub(crate) fn matches(&self, head: &RequestHead<'_>) -> bool {
        match &self.0 {
            Condition::Networks(client, networks) => {
                let client = client.ip(head).map(|client| client.to_canonical());
                client.is_some_and(|client| networks.iter().any(|network| network.contains(&client)))
            }
            Condition::Header(name) => head.headers.contains_key(name),
            Condition::Cookie => cookie_value(head.headers, Self::COOKIE).is_some(),
            Condition::Closure(closure) => closure.call(|closure| closure(head)).unwrap_or_default(),
        }
    }
}

impl fmt::Debug for Ignore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = match &self.0 {
            Condition::Networks(_, networks) => return f.debug_tuple("Networks").field(networks).finish(),
            Condition::Header(name) => return f.debug_tuple("Header").field(name).finish(),
            Condition::Cookie => "Cookie",
            Condition::Closure(_) => "Closure(..)",
        };
        f.write_str(condition)
    }
}
