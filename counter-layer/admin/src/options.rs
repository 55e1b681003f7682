use std::fmt;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use counter_alert::Alerts;
use counter_alert::note::Notes;
use counter_core::archive::Archive;

use super::mount::{PublicPath, PublicPathError};
use super::zone::Zone;

/// Options of the admin router.
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
}

impl Options {
    /// Returns the defaults: 64 listeners, whose answers end after 5 s.
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
        }
    }

    /// Sets how many clients may listen to live events at the same time.
    #[must_use]
    pub const fn listeners(mut self, listeners: usize) -> Self {
        self.listeners = listeners;
        self
    }

    /// Ends live events when this future completes or panics, and not before. Default: each answer ends after
    /// 5 s, and its client connects again, as browsers do by themselves.
    ///
    /// A server that stops gracefully waits for its responses, and tells them nothing. So the default lets it
    /// stop within 5 s, and this lets it stop at once: give it the signal that the server gets.
    #[must_use]
    pub fn live_until(mut self, stopped: impl Future<Output = ()> + Send + 'static) -> Self {
        // It is asked by the answers that it is to end, and its panic would be that of the connection.
        self.live_until = Some(AssertUnwindSafe(stopped).catch_unwind().map(drop).boxed().shared());
        self
    }

    /// Takes hits from other programs, at `api/hits`, from clients that
    /// [may record](crate::Access::may_record). Default: there is no such path.
    ///
    /// Requests that are told of are decided about by `counter`, as those of an access log are. The address in a record
    /// is the client's, however many hops or which networks the identity trusts: such a request has come by none of
    /// them, and [`LogCounter::behind`](counter_layer::log::LogCounter::behind), which is for the log of a proxy, is not to be called. Each producer is a
    /// [source](counter_core::source) with the name `producer:` and its own. Its position is kept for 90 days after its
    /// last request, or for as long as [`Sources::keep_for`](counter_core::source::Sources::keep_for) says. The [guide](crate::guide#hits-from-other-programs)
    /// shows clients.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    /// use counter_layer::AccessCounterLayer;
    /// use counter_admin::{Access, Options};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let layer = AccessCounterLayer::new(counters.recorder());
    /// let options = Options::new().hits(counters.sources(), layer.log_counter());
    /// let access = Access::bearer("a-long-random-token")?.may_record();
    /// let admin = counter_admin::router_with(counters.stats(), access, options);
    /// # drop(admin);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "hits")]
    #[must_use]
    pub fn hits(
        mut self,
        sources: counter_core::source::Sources,
        counter: counter_layer::log::LogCounter,
    ) -> Self {
        self.producers = Some(super::producers::Producers::new(sources, counter));
        self
    }

    /// Tells the last audit of this archive at `api/audit`, where a `POST` from clients that
    /// [may repair](crate::Access::may_repair) makes one now. Default: there is no such path.
    ///
    /// It is the archive that the counters have as their store. The
    /// [guide](crate::guide#an-audit-of-the-archive) shows what to do with it.
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

    /// Tells the rules of a watch and what is known of them, at `api/alerts`, as metrics, and on the dashboard, where clients
    /// that [may silence](crate::Access::may_silence) rules can do so. Default: there is no such path.
    ///
    /// It is the handle of [`Watch::alerts`](counter_alert::Watch::alerts), or one of the same rules where another
    /// process runs the watch. The [guide](crate::guide#alerts) shows what to do with it.
    ///
    /// ```
    /// use counter_alert::{AlertRule, Watch};
    /// use counter_core::{Counters, MemoryStore, Precision};
    /// use counter_admin::{Access, Options};
    ///
    /// let (store, minute) = (MemoryStore::new(), Precision::try_from(60)?);
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

    /// Shows notes in the charts, lists them at `api/notes`, and takes them there and on the pages from clients that
    /// [may note](crate::Access::may_note). Default: there are none, and no such path.
    ///
    /// Those who see the dashboard see them, and those who have a link to one view do not. The
    /// [guide](crate::guide#notes) has the line for a script.
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

    /// Sets the time zone of the site, by its name in the IANA database: the days of the dashboard begin and end at its
    /// midnight, in summer as in winter, and without a script its times are those of its clocks. Default: UTC, or the
    /// [offset](counter_core::Builder::utc_offset) of the days that are kept.
    ///
    /// A day is the sum of the hours that are kept, or of quarter hours or the like where it does not begin with an hour,
    /// and may have 23 or 25 of them; visitors are those of the union of these buckets. So the store keeps
    /// nothing for a zone, and there are days for as long as it keeps hours, by
    /// [`Builder::precisions`](counter_core::Builder::precisions) or in an archive. The
    /// [guide](crate::guide#days-of-a-time-zone) shows both.
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
    /// When there is no time zone of this name.
    #[cfg(feature = "time-zone")]
    pub fn time_zone(mut self, name: &str) -> Result<Self, super::zone::named::TimeZoneError> {
        self.zone = Zone::new(name)?;
        Ok(self)
    }

    /// Sets the path at which clients find the router. Default: the path at which it is mounted.
    ///
    /// It is for a proxy that takes the beginning of a path away, such as one that serves `/stats/` and asks
    /// the application for `/admin/stats/` or for `/`. Links, redirects and the path of the session cookie
    /// begin with it. [`Access::forwarded_prefix`] lets the proxy tell it instead; this setting precedes it.
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
    /// When it is not a path from the root in the characters of RFC 3986, of at most 512 bytes, or has an
    /// empty segment, a segment of dots, a comma or a semicolon.
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
