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

    /// Sets the maximum number of clients that listen to live events at the same time.
    #[must_use]
    pub const fn listeners(mut self, listeners: usize) -> Self {
        self.listeners = listeners;
        self
    }

    /// Ends live events when this future completes or panics, and not before. By default, each response ends after 5 s, and
    /// its client reconnects, as browsers do.
    ///
    /// A graceful shutdown waits for open responses. The default lets the server stop within 5 s. With this option it stops
    /// immediately: pass the signal that also stops the server.
    #[must_use]
    pub fn live_until(mut self, stopped: impl Future<Output = ()> + Send + 'static) -> Self {
        // Responses poll it, so a panic would end their connections.
        self.live_until = Some(AssertUnwindSafe(stopped).catch_unwind().map(drop).boxed().shared());
        self
    }

    /// Accepts hits from other programs at `/api/hits`, from clients that [may record](crate::Access::may_record). Without
    /// this option, the path does not exist.
    ///
    /// `counter` classifies requests in the same way as those of an access log. The address in a record is that of the
    /// client. The hops and networks that the identity trusts do not matter, because such a request did not pass through
    /// them; do not call [`LogCounter::behind`](counter_log::LogCounter::behind), which is for the log of a proxy.
    /// Each producer is a [source](counter_core::source) whose name is `producer:` and the name of the producer. Its position
    /// is kept for 90 days after its last request, or for as long as
    /// [`Sources::keep_for`](counter_core::source::Sources::keep_for) says. The
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

    /// Returns the last audit of this archive at `/api/audit`. A `POST` from clients that
    /// [may repair](crate::Access::may_repair) runs an audit now. Without this option, the path does not exist.
    ///
    /// Pass the archive that the counters use as their store. The [guide](crate::guide#an-audit-of-the-archive) explains
    /// the result.
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

    /// Shows the rules of a watch and their state at `/api/alerts`, in the metrics, and on the dashboard, where clients that
    /// [may silence](crate::Access::may_silence) rules can do so. Without this option, the paths do not exist.
    ///
    /// Pass the handle of [`Watch::alerts`](counter_alert::Watch::alerts), or a handle from the same rules if another process
    /// runs the watch. The [guide](crate::guide#alerts) has examples.
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

    /// Shows notes in the charts and at `/api/notes`. Clients that [may note](crate::Access::may_note) can add and remove them
    /// there and on the pages. Without this option, there are no notes, and the path does not exist.
    ///
    /// All clients with access to the dashboard see the notes, but clients with a link to one view do not. The
    /// [guide](crate::guide#notes) has a command for scripts.
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

    /// Sets the time zone of the site, by its name in the IANA database. The days of the dashboard begin and end at midnight
    /// in this zone, also when clocks change, and without a script the dashboard shows local times. Default: UTC, or the
    /// [offset](counter_core::Builder::utc_offset) of the days that are kept.
    ///
    /// A day is the sum of hours, or of quarter hours if it does not begin on the hour, and can have 23 or 25 hours. Visitors
    /// are those of the union of these buckets. The store keeps nothing for a zone, so there are days for as long as it keeps
    /// hours, with [`Builder::precisions`](counter_core::Builder::precisions) or in an archive. The
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
    /// Fails if there is no time zone of this name.
    #[cfg(feature = "time-zone")]
    pub fn time_zone(mut self, name: &str) -> Result<Self, super::zone::named::TimeZoneError> {
        self.zone = Zone::new(name)?;
        Ok(self)
    }

    /// Sets the path at which clients find the router. Default: the path at which it is mounted.
    ///
    /// Use it if a proxy removes the beginning of a path: for example, it serves `/stats/` and requests `/admin/stats/` or
    /// `/` from the application. Links, redirects and the path of the session cookie begin with this path. With
    /// [`Access::forwarded_prefix`] the proxy sends the path instead; this option takes precedence.
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
    /// Fails if the path does not begin with a slash, has more than 512 bytes or characters that RFC 3986 does not allow, or
    /// contains an empty segment, a segment of dots, a comma or a semicolon.
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
