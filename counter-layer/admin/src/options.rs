use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use counter_alert::Alerts;
use counter_alert::goal::Goals;
use counter_alert::note::Notes;
use counter_core::archive::Archive;

use super::mount::{PublicPath, PublicPathError};
use super::zone::Zone;

/// Options for the admin router.
///
/// ```
/// use counter_admin::Options;
///
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let options = Options::new().listeners(8).live_until(async { drop(stopped.await) });
/// # drop((stop, options));
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) listeners: usize,
    pub(crate) live_until: Option<Shared<BoxFuture<'static, ()>>>,
    pub(crate) public_path: Option<PublicPath>,
    pub(crate) zone: Zone,
    #[cfg(feature = "hits")]
    pub(crate) producers: Option<super::producers::Producers>,
    pub(crate) archive: Option<Archive>,
    pub(crate) alerts: Option<Alerts>,
    pub(crate) notes: Option<Notes>,
    pub(crate) goals: Option<Goals>,
    pub(crate) ignore_switch: bool,
    pub(crate) site_name: Option<Arc<str>>,
}

impl Options {
    /// Returns the defaults: 64 listeners, with responses that end after 5 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            listeners: 64,
            live_until: None,
            public_path: None,
            zone: Zone::default(),
            #[cfg(feature = "hits")]
            producers: None,
            archive: None,
            alerts: None,
            notes: None,
            goals: None,
            ignore_switch: false,
            site_name: None,
        }
    }

    /// Sets the name of the site, which the titles of pages and the names of files contain. Default: none.
    ///
    /// ```
    /// let options = counter_admin::Options::new().site_name("example.org");
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn site_name(mut self, name: &str) -> Self {
        self.site_name = Some(name.into());
        self
    }

    /// Adds "Do not count this browser" to the menu of the dashboard. It sets the cookie
    /// [`access-counter-ignore`](counter_layer::Ignore::COOKIE) for a year, for all paths of the host.
    ///
    /// The layer must ignore the cookie, and the dashboard must be on the same host as the site.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_layer::{AccessCounterLayer, Ignore};
    /// use counter_admin::{Access, Options};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder()).ignore([Ignore::cookie()]);
    /// let access = Access::bearer("a-long-random-token")?;
    /// let admin = counter_admin::router_with(counters.stats(), access, Options::new().ignore_switch());
    /// # drop((layer, admin));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn ignore_switch(mut self) -> Self {
        self.ignore_switch = true;
        self
    }

    /// Sets the maximum number of clients listening to live events at the same time.
    #[must_use]
    pub const fn listeners(mut self, listeners: usize) -> Self {
        self.listeners = listeners;
        self
    }

    /// Keeps live events open until this future completes or panics. By default, responses end after 5 s and
    /// clients will reconnect, as browsers do.
    ///
    /// A graceful shutdown waits for open responses. With the default, the server can stop within 5 s. With
    /// this option, it will stop immediately if you pass the signal that also stops the server.
    #[must_use]
    pub fn live_until(mut self, stopped: impl Future<Output = ()> + Send + 'static) -> Self {
        // Responses poll this future, so a panic would close the connections.
        self.live_until = Some(AssertUnwindSafe(stopped).catch_unwind().map(drop).boxed().shared());
        self
    }

    /// Accepts hits from other programs at `/api/hits`, sent by clients that [may
    /// record](crate::Access::may_record). Without this option, the path does not exist.
    ///
    /// `counter` classifies requests like the requests in an access log. The address in a record is the
    /// client address. The hops and networks trusted by the identity don't matter, because these requests did
    /// not pass through proxies; do not call [`LogCounter::behind`](counter_log::LogCounter::behind), which
    /// is for proxy logs. A producer is a [source](counter_core::source) named `producer:` followed by the
    /// producer name. Positions are retained for 90 days after the latest request, or as configured via
    /// [`Sources::expire_after`](counter_core::source::Sources::expire_after). The
    /// [guide](crate::guide#hits-from-other-programs) shows clients.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_layer::AccessCounterLayer;
    /// use counter_admin::{Access, Options};
    /// use counter_log::LogCounter;
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder());
    /// let options = Options::new().hits(counters.sources(), LogCounter::new(&layer));
    /// let access = Access::bearer("a-long-random-token")?.may_record();
    /// let admin = counter_admin::router_with(counters.stats(), access, options);
    /// # drop(admin);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "hits")]
    #[must_use]
    pub fn hits(mut self, sources: counter_core::source::Sources, counter: counter_log::LogCounter) -> Self {
        self.producers = Some(super::producers::Producers::new(sources, counter));
        self
    }

    /// Returns the latest audit of this archive at `/api/audit`. A `POST` from clients that [may
    /// repair](crate::Access::may_repair) will run an audit immediately. Without this option, the path does
    /// not exist.
    ///
    /// You must pass the archive used as the store of the counters. The
    /// [guide](crate::guide#an-audit-of-the-archive) explains the result.
    ///
    /// ```
    /// use counter_core::archive::Archive;
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_admin::{Access, Options};
    ///
    /// let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
    /// let counters = Counters::builder(archive.clone()).build()?;
    /// let options = Options::new().archive(archive);
    /// let access = Access::bearer("a-long-random-token")?.may_repair();
    /// let admin = counter_admin::router_with(counters.stats(), access, options);
    /// # drop(admin);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn archive(mut self, archive: Archive) -> Self {
        self.archive = Some(archive);
        self
    }

    /// Shows alert rules and the current state at `/api/alerts`, in the metrics, and on the dashboard, where
    /// clients that [may silence](crate::Access::may_silence) rules can also add and remove those in the store. Without this option,
    /// the paths do not exist.
    ///
    /// Pass the handle returned by [`Watch::alerts`](counter_alert::Watch::alerts). If the watch runs in a
    /// different process, you need to create the handle from the same rules. The [guide](crate::guide#alerts)
    /// has examples.
    ///
    /// ```
    /// use counter_alert::{AlertRule, Watch};
    /// use counter_core::{Counters, MemoryStore, Precision};
    /// use counter_admin::{Access, Options};
    ///
    /// let (store, minute) = (MemoryStore::new(), Precision::MINUTE);
    /// let counters = Counters::builder(store.clone()).build()?;
    /// let busy = AlertRule::above("busy", "hits".parse()?, minute, 10_000);
    /// let watch = Watch::builder(counters.stats(), store).rule(busy).build()?;
    /// let options = Options::new().alerts(watch.alerts());
    /// let access = Access::bearer("a-long-random-token")?.may_silence();
    /// let admin = counter_admin::router_with(counters.stats(), access, options);
    /// # drop(admin);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn alerts(mut self, alerts: Alerts) -> Self {
        self.alerts = Some(alerts);
        self
    }

    /// Shows notes in the charts and at `/api/notes`. Clients that [may note](crate::Access::may_note) can
    /// add and remove notes via the API and on the pages. Without this option, notes are not shown and the
    /// path does not exist.
    ///
    /// All clients with access to the dashboard can see the notes, but not clients with a link to a single
    /// view. The [guide](crate::guide#notes) has a command for scripts.
    ///
    /// ```
    /// use counter_alert::note::Notes;
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_admin::{Access, Options};
    ///
    /// let store = MemoryStore::new();
    /// let counters = Counters::builder(store.clone()).build()?;
    /// let options = Options::new().notes(Notes::new(store));
    /// let access = Access::bearer("a-long-random-token")?.may_note();
    /// let admin = counter_admin::router_with(counters.stats(), access, options);
    /// # drop(admin);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn notes(mut self, notes: Notes) -> Self {
        self.notes = Some(notes);
        self
    }

    /// Serves goals at `/api/goals` and on the dashboard: how many people reach them, and the conversion. Clients that
    /// [may note](crate::Access::may_note) can mark counters as goals. Without this option, the paths do not exist.
    ///
    /// ```
    /// use counter_admin::{Access, Options};
    /// use counter_alert::goal::Goals;
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let counters = Counters::builder(store.clone()).build()?;
    /// let options = Options::new().goals(Goals::new(store));
    /// let access = Access::bearer("a-long-random-token")?.may_note();
    /// let admin = counter_admin::router_with(counters.stats(), access, options);
    /// # drop(admin);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn goals(mut self, goals: Goals) -> Self {
        self.goals = Some(goals);
        self
    }

    /// Sets the time zone of the site, given an IANA name. Days on the dashboard will start and end at
    /// midnight in this time zone, including when clocks change, and all times are shown in it. Default: times in UTC,
    /// and days with the [offset](counter_core::Builder::utc_offset) of the retained days.
    ///
    /// This requires buckets that these days are made of: use [`local_days`](crate::local_days) for a new store. If the
    /// store does not keep them, the page shows the days of the store instead, and says so. The
    /// [guide](crate::guide#days-of-a-time-zone) has an example.
    ///
    /// ```
    /// use counter_admin::Options;
    ///
    /// let options = Options::new().time_zone("Europe/Berlin")?;
    /// assert!(Options::new().time_zone("Europe/Atlantis").is_err());
    /// # drop(options);
    /// # Ok::<(), counter_admin::TimeZoneError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the time zone does not exist.
    #[cfg(feature = "time-zone")]
    pub fn time_zone(mut self, name: &str) -> Result<Self, super::zone::named::TimeZoneError> {
        let remedy = self.zone.remedy;
        self.zone = Zone::new(name)?;
        self.zone.remedy = remedy;
        Ok(self)
    }

    /// Sets a sentence to show if the store does not keep the days of the [time zone](Self::time_zone), e.g. how to
    /// change its buckets. Default: none.
    #[cfg(feature = "time-zone")]
    #[must_use]
    pub const fn time_zone_remedy(mut self, text: &'static str) -> Self {
        self.zone.remedy = text;
        self
    }

    /// Sets the path at which clients reach the router. Default: the path at which the router is mounted.
    ///
    /// Use this if a proxy strips a path prefix, e.g. if it serves `/stats/` and forwards to `/admin/stats/`
    /// or `/` of the application. Links, redirects and the path of the session cookie will start with this
    /// path. With [`Access::forwarded_prefix`], the proxy sends the path instead, but this option takes
    /// precedence.
    ///
    /// ```
    /// use counter_admin::Options;
    ///
    /// let options = Options::new().public_path("/stats")?;
    /// assert!(Options::new().public_path("//other.example").is_err());
    /// # drop(options);
    /// # Ok::<(), counter_admin::PublicPathError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the path does not start with a slash, is longer than 512 bytes, has characters not allowed by
    /// RFC 3986, or contains an empty segment, a dot segment, a comma or a semicolon.
    ///
    /// [`Access::forwarded_prefix`]: crate::Access::forwarded_prefix
    pub fn public_path(mut self, path: &str) -> Result<Self, PublicPathError> {
        self.public_path = Some(PublicPath::new(path)?);
        Ok(self)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listeners", &self.listeners)
            .field("public_path", &self.public_path)
            .finish_non_exhaustive()
    }
}
