//! Labels of requests: what they have in common beside their pages.

mod text;
mod value;
mod referrer;
mod campaign;
mod language;
mod client;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use counter_core::visits::{Agent, LabelError, LabelValues, NotedValue};
use counter_core::{Counter, Recorder, Timestamp};
use http::HeaderName;
use http::header::{ACCEPT_LANGUAGE, REFERER, USER_AGENT};

use crate::closure::Closure;
use crate::identity::RequestHead;
use client::{Client, Words};
use text::Text;
use value::Value;

/// Something that requests have in common beside their pages, such as the site that they came from: for each of its values
/// there is a counter, such as `label:referrer:example.com`.
///
/// | label | counters | from |
/// |---|---|---|
/// | [`referrer`](Self::referrer) | `label:referrer:example.com` | the host of `Referer` |
/// | [`campaign`](Self::campaign) | `label:campaign:spring` | `utm_campaign` in the query, or else `utm_source` |
/// | [`device`](Self::device) | `label:device:` `desktop`, `mobile`, `tablet`, `tv`, `console`, `bot` | the user agent |
/// | [`browser`](Self::browser) | `label:browser:firefox` and the like, `label:browser:bot` | the user agent |
/// | [`language`](Self::language) | `label:language:de` | the first one of `Accept-Language` |
/// | [`from_fn`](Self::from_fn) | `label:country:CH` | a closure |
///
/// Each counted request has one value of each label, so a label adds up to `hits`: `(none)` is for requests without one,
/// and `(other)` for what is no value, and for values that are rare where there are too many. A label has places for 2,000
/// values, and those that have 0.1 % of the hits always have one: see [`LabelValues`](counter_core::visits::LabelValues) for what a scan of made-up values does, and
/// how far the counts are off then, which is told with them.
///
/// Nothing but these values is kept of a request: no address, no URL and no user agent. See
/// [the guide](crate::guide::labels) for countries, the keys of an API, and what labels cost.
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
///     .labels([Label::referrer().own_host("example.org"), Label::language()])?;
/// # let app: Router = Router::new().route("/", get(async || "home")).layer(layer);
/// # for referrer in ["https://news.example.com/item?id=7", "https://example.org/about"] {
/// #     let request = http::Request::get("/").header("referer", referrer).header("accept-language", "de-CH");
/// #     app.clone().oneshot(request.body(axum::body::Body::empty())?).await?;
/// # }
/// // One visitor comes from https://news.example.com/item?id=7, and one from a page of the site itself.
/// counters.flush().await?;
///
/// let names = ["label:referrer:news.example.com", "label:referrer:(none)", "label:language:de"];
/// let names = names.map(|name| name.parse().expect("a name"));
/// assert_eq!(counters.stats().lifetimes(&names).await?, [1, 1, 2]);
/// # Ok(())
/// # }
/// ```
#[must_use = "it counts where a layer is given it"]
pub struct Label {
    name: Cow<'static, str>,
    source: Source,
}

/// The origin of a label's value.
enum Source {
    Referrer { own: Vec<Box<str>> },
    Campaign,
    Device,
    Browser,
    Language,
    Closure(Box<FromFn>),
}

/// A closure that finds a value in the head of a request.
type FromFn = Closure<dyn for<'a> Fn(&RequestHead<'a>) -> Option<Cow<'a, str>> + Send + Sync>;

/// The labels of a layer, with their counters.
pub(crate) struct Labels {
    labels: Vec<(LabelValues, Source)>,
    words: Option<Words>,
}

/// The values of a request that is under way.
pub(crate) type Noted = [Option<NotedValue>; LABELS];

/// The number of labels, and so of the hits that a request has under them at most: as many as a recorder has.
pub(crate) const LABELS: usize = 8;

impl Label {
    /// The site that a visitor came from: the host of the header `Referer`, in lower case, without `www.` and without a port.
    ///
    /// An address in the place of a name is `(other)`, and so is what is no host. Name the site's own hosts, whose pages
    /// link to each other, by [`own_host`](Self::own_host).
    pub const fn referrer() -> Self {
        Self { name: Cow::Borrowed("referrer"), source: Source::Referrer { own: Vec::new() } }
    }

    /// Leaves out referrers of this host and of those below it, such as `www.example.org` below `example.org`: their
    /// requests count under `(none)`. It changes nothing for other labels.
    pub fn own_host(mut self, host: &str) -> Self {
        if let Source::Referrer { own } = &mut self.source {
            let mut text = Text::new();
            match referrer::name(host.as_bytes(), &mut text) {
                Some(host) => own.push(host.into()),
                None => tracing::warn!(host, "this is no name of a host, and no referrer has it"),
            }
        }
        self
    }

    /// The campaign of the link that was followed: what `utm_campaign` in the query of the request says, or else
    /// `utm_source`.
    ///
    /// A value has 64 bytes at most, of letters, digits, spaces, `-`, `_`, `.` and `|`; anything else is `(other)`, such as
    /// an address of mail.
    pub const fn campaign() -> Self {
        Self { name: Cow::Borrowed("campaign"), source: Source::Campaign }
    }

    /// The kind of device: `desktop`, `mobile`, `tablet`, `tv` or `console`, and `bot` for a client that is
    /// [one](crate::guide::visitors#bots).
    ///
    /// An iPad says that it is a desktop, unless it is old.
    pub const fn device() -> Self {
        Self { name: Cow::Borrowed("device"), source: Source::Device }
    }

    /// The family of the browser: `chrome`, `safari`, `firefox`, `edge`, `opera`, `samsung`, `uc`, `yandex`, `vivaldi`,
    /// `duckduckgo` or `internet-explorer`, and `bot` for a client that is one.
    ///
    /// Browsers that take care to look like another are that one, as Brave is Chrome.
    pub const fn browser() -> Self {
        Self { name: Cow::Borrowed("browser"), source: Source::Browser }
    }

    /// The language that a visitor prefers: the first one of `Accept-Language`, without region, such as `de`.
    pub const fn language() -> Self {
        Self { name: Cow::Borrowed("language"), source: Source::Language }
    }

    /// Whatever a closure makes of the head of a request; `None` for a request without a value.
    ///
    /// The closure runs once for each request that the rules do not exclude, before the request is served, and should
    /// touch memory only. When it panics, the request counts under `(other)`. What it returns is stored and shown: it must
    /// not return an address, a secret such as the key of an API, or anything else that names somebody.
    ///
    /// ```
    /// use counter_layer::Label;
    ///
    /// // What a proxy such as Cloudflare found out.
    /// let country = Label::from_fn("country", |head| {
    ///     head.headers.get("cf-ipcountry")?.to_str().ok().map(Into::into)
    /// });
    /// ```
    pub fn from_fn(
        name: impl Into<Cow<'static, str>>,
        value: impl for<'a> Fn(&RequestHead<'a>) -> Option<Cow<'a, str>> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), source: Source::Closure(Box::new(Closure::new("Label::from_fn", value))) }
    }
}

impl Labels {
    /// The labels, unless there are none. Of two with one name, the last counts.
    pub(crate) fn of(
        recorder: &Recorder,
        chosen: impl IntoIterator<Item = Label>,
    ) -> Result<Option<Arc<Self>>, LabelError> {
        let mut by_name = Vec::<Label>::new();
        for label in chosen {
            by_name.retain(|other| other.name != label.name);
            by_name.push(label);
        }
        let needs_words =
            by_name.iter().any(|label| matches!(label.source, Source::Device | Source::Browser));
        let bound = by_name.into_iter().map(|label| Ok((recorder.label_values(&label.name)?, label.source)));
        let labels = bound.collect::<Result<Vec<_>, LabelError>>()?;
        let words = needs_words.then(Words::default);
        Ok((!labels.is_empty()).then(|| Arc::new(Self { labels, words })))
    }

    /// Notes the values of a request that is made at about this instant.
    #[inline(never)]
    pub(crate) fn note(
        &self,
        head: &RequestHead<'_>,
        agent: Agent,
        at: Timestamp,
        weight: NonZeroU32,
    ) -> Noted {
        let client = self.words.as_ref().map(|words| words.client(header(head, &USER_AGENT), agent));
        let mut noted = [None; LABELS];
        for (noted, (values, source)) in noted.iter_mut().zip(&self.labels) {
            let mut text = Text::new();
            let note = |value: Value<'_>| values.note(value.noted(), at, weight);
            *noted = Some(match source {
                Source::Closure(closure) => match closure.ask(|closure| closure(head)) {
                    Some(Some(value)) => {
                        values.note(Some(value.trim()).filter(|value| !value.is_empty()), at, weight)
                    }
                    Some(None) => note(Value::None),
                    None => note(Value::Other),
                },
                source => note(source.value(head, client, &mut text)),
            });
        }
        noted
    }

    /// Returns the counters of the values of a request.
    pub(crate) fn counters<'a>(&'a self, noted: &'a Noted) -> impl Iterator<Item = Counter> + 'a {
        self.labels.iter().zip(noted.iter().flatten()).map(|((values, _), noted)| values.counter(*noted))
    }
}

impl Source {
    fn value<'a>(&self, head: &RequestHead<'_>, client: Option<Client>, text: &'a mut Text) -> Value<'a> {
        match self {
            Self::Referrer { own } => match referrer::host(header(head, &REFERER), text) {
                Value::Text(host) if referrer::is_own(host, own) => Value::None,
                value => value,
            },
            Self::Campaign => campaign::campaign(head.uri.query(), text),
            Self::Device => client.map_or(Value::Other, Client::device),
            Self::Browser => client.map_or(Value::Other, Client::browser),
            Self::Language => language::language(header(head, &ACCEPT_LANGUAGE), text),
            Self::Closure(_) => Value::Other,
        }
    }
}

fn header<'a>(head: &RequestHead<'a>, name: &HeaderName) -> &'a [u8] {
    head.headers.get(name).map_or(&[], |value| value.as_bytes())
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Label").field("name", &self.name).finish_non_exhaustive()
    }
}
