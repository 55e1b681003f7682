use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use counter_admin::{Access, AccessError};
use counter_core::archive::Archive;
use counter_core::time::Grid;
use counter_core::visits::{BuildError, Distribution, Measure};
use counter_core::{AnyStore, Counters, Recorder, Secret};
use counter_layer::{AccessCounterLayer, Address, CountryDatabase, Delivery, Facet, Forwarded, Identity};
use example_app::demo::History;

use super::server::Timeouts;
use super::watch;
use crate::flags::listen::ListenAddress;
use crate::flags::store::{Opened, check_archive_url};
use crate::flags::{clock, grid, ignored, labels, sites, store};
use crate::problem::At;

/// Options of the site.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Settings {
    #[command(flatten)]
    pub(super) store: store::Settings,
    #[command(flatten)]
    pub(super) grid: grid::Settings,
    #[command(flatten)]
    pub(super) writes: Writes,
    #[command(flatten)]
    pub(super) server: Server,
    #[command(flatten)]
    pub(super) counting: Counting,
    #[command(flatten)]
    pub(super) dashboard: Dashboard,
    #[command(flatten)]
    pub(super) sites: sites::Settings,
    #[command(flatten)]
    pub(super) watch: watch::Settings,
    #[command(flatten)]
    pub(super) forum: Forum,
    #[command(flatten)]
    pub(super) demo: Demo,
}

/// Options for writing to the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(super) struct Writes {
    /// Time between writes to the store.
    #[arg(long, env = "COUNTER_FLUSH_INTERVAL", value_name = "SECONDS", default_value = "1", value_parser = clock::interval)]
    flush_interval: Duration,
    /// Let responses wait until their hit is stored.
    #[arg(long, env = "COUNTER_CONFIRM", value_name = "SECONDS", value_parser = clock::seconds)]
    confirm: Option<Duration>,
    /// Directory for unsent counts, to survive a crash.
    #[arg(long, env = "COUNTER_SPOOL", value_name = "DIRECTORY")]
    spool: Option<PathBuf>,
    /// Database that keeps hours and days for years.
    #[arg(long, env = "COUNTER_ARCHIVE", hide_env_values = true, value_name = "URL")]
    pub(super) archive: Option<String>,
    /// Time between copies to the archive.
    #[arg(
        long,
        env = "COUNTER_ARCHIVE_INTERVAL",
        value_name = "SECONDS",
        default_value = "30",
        value_parser = clock::interval,
        requires = "archive"
    )]
    pub(super) archive_interval: Duration,
}

/// Options of the HTTP server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct Server {
    /// Address to listen on.
    #[arg(long, env = "COUNTER_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub(super) listen: ListenAddress,
    /// Proxies that set X-Forwarded-For.
    #[arg(long, env = "COUNTER_TRUST_HOPS", value_name = "NUMBER", default_value_t = 0, value_parser = clock::hops)]
    trust_hops: usize,
    /// Time to wait for a request.
    #[arg(long, env = "COUNTER_REQUEST_TIMEOUT", value_name = "SECONDS", default_value = "30", value_parser = clock::seconds)]
    pub(super) request_timeout: Duration,
    /// Time to finish requests on shutdown.
    #[arg(long, env = "COUNTER_DRAIN_TIMEOUT", value_name = "SECONDS", default_value = "10", value_parser = clock::seconds)]
    drain_timeout: Duration,
}

/// Options that select what is counted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Counting")]
pub(super) struct Counting {
    #[command(flatten)]
    labels: labels::Labels,
    #[command(flatten)]
    ignored: ignored::Ignored,
    /// Record response times, sizes and status codes.
    #[arg(long, env = "COUNTER_DISTRIBUTIONS", default_value_if("demo_traffic", "true", "true"))]
    distributions: bool,
    /// Secret to hash visitors, 32 hexadecimal digits.
    #[arg(long, env = "COUNTER_SECRET", hide_env_values = true, value_name = "DIGITS")]
    pub(super) secret: Option<String>,
}

/// Options of the admin pages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Dashboard")]
pub(super) struct Dashboard {
    /// Token to sign in, at least 16 characters.
    #[arg(long, env = "COUNTER_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(super) admin_token: Option<String>,
    /// Only send the session cookie over HTTPS.
    #[arg(long, env = "COUNTER_SECURE_COOKIE")]
    secure_cookie: bool,
}

/// Options of the forum.
#[derive(Debug, Args)]
#[command(next_help_heading = "Forum")]
pub(super) struct Forum {
    /// SQLite file for the forum, e.g. sqlite:forum.db.
    #[arg(long, env = "COUNTER_DATABASE", value_name = "URL", value_parser = sqlite_url)]
    pub(super) database: Option<String>,
    /// Local time of day to recount the forum.
    #[arg(long, env = "COUNTER_RECOUNT_AT", value_name = "TIME", default_value = "04:00", value_parser = clock::time_of_day)]
    pub(super) recount_at: u32,
}

/// Options of the demo.
#[derive(Debug, Args)]
#[command(next_help_heading = "Demo")]
pub(super) struct Demo {
    /// Simulate visitors and a history, and count all that is shown.
    #[arg(long, env = "COUNTER_DEMO_TRAFFIC")]
    pub(super) demo_traffic: bool,
}

/// Names the spool in an error.
fn spool_option(folder: &Path) -> String {
    format!("--spool {}", folder.display())
}

/// Checks that an address is that of a SQLite database.
fn sqlite_url(text: &str) -> Result<String, &'static str> {
    match text.starts_with("sqlite:") {
        true => Ok(text.to_owned()),
        false => Err("the forum needs a SQLite file, such as sqlite:forum.db"),
    }
}

impl Settings {
    /// Checks the options, before a store is created.
    ///
    /// # Errors
    ///
    /// Returns an error if an option is invalid.
    pub(super) fn check(&self) -> Result<(), Box<dyn Error>> {
        self.sites.check_names()?;
        self.grid.check()?;
        self.counting.labels.check()?;
        self.writes.archive.as_deref().map(check_archive_url).transpose()?;
        match &self.writes.spool {
            Some(folder) if folder.exists() && !folder.is_dir() => {
                Err("this is a file; choose a directory, which is created").at(spool_option(folder))
            }
            _ => Ok(()),
        }
    }

    /// Builds the counters for the store, the archive and the sites.
    ///
    /// # Errors
    ///
    /// Returns an error if a spool is configured for a store in memory, or if the store uses different
    /// buckets.
    pub(super) async fn counters(
        &self,
        opened: &Opened,
        archive: Option<&Archive>,
        secret: Option<Secret>,
    ) -> Result<Counters, Box<dyn Error>> {
        let mut counters = match archive {
            Some(archive) => Counters::builder(archive.clone()),
            None if self.sites.is_empty() => Counters::builder(opened.store.clone()),
            None => Counters::builder(self.sites.fleet(opened.store.clone()).await?),
        };
        counters = counters.flush_interval(self.writes.flush_interval);
        if let Some(secret) = secret {
            counters = counters.secret(secret);
        }
        if self.counting.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        if let Some(folder) = &self.writes.spool {
            if opened.is_in_memory {
                return Err("--spool requires a store that is not in memory; omit it, or set --store to a file or server".into());
            }
            counters = counters.spool(folder);
        }
        // The check of the sites says which of them do not respond.
        let store = self.sites.is_empty().then_some(&*opened.option);
        let built = self.grid.build_with_timeout(counters, store).await;
        let counters = match (built, &self.writes.spool) {
            (Err(error), Some(folder)) if error.is::<BuildError>() => {
                return Err(error).at(spool_option(folder));
            }
            (built, _) => built?,
        };
        self.sites.check(&counters.stats()).await?;
        Ok(counters)
    }

    /// Builds the history of the demo for a store with this grid, or returns `None` if there should not be a
    /// demo.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is invalid.
    pub(super) fn history(
        &self,
        store: &AnyStore,
        grid: &Grid,
        utc_offset: i32,
    ) -> Result<Option<History>, Box<dyn Error>> {
        if !self.demo.demo_traffic {
            return Ok(None);
        }
        // With separate counters, the dashboard does not show the history as requests of this process.
        let mut counters = Counters::builder(store.clone());
        if let Some(days) = self.grid.local_days()? {
            counters = counters.local_days(days)?;
        }
        counters = counters.precisions(grid.counts.clone()).visitor_precisions(grid.visitors.clone());
        if let Some(distributions) = &grid.distributions {
            counters = counters.distributions(distributions.clone());
        }
        let counters = counters.build()?;
        let layer = self.layer(counters.recorder())?;
        Ok(Some(History::new(counters, layer, store, utc_offset)))
    }

    /// Returns the access rules for the admin pages.
    ///
    /// # Errors
    ///
    /// Returns an error if the token is too short.
    pub(super) fn access(&self, token: &str) -> Result<Access, AccessError> {
        let access = Access::bearer(token)?.clients(self.client());
        let access = access.may_record().may_repair().may_silence().may_note();
        Ok(if self.dashboard.secure_cookie { access.secure_cookie() } else { access })
    }

    /// Builds the layer that counts requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the proxy or label settings are invalid.
    pub(super) fn layer(&self, recorder: Recorder) -> Result<AccessCounterLayer, Box<dyn Error>> {
        let delivery = match self.writes.confirm {
            Some(timeout) => Delivery::BeforeResponse { timeout },
            None => Delivery::Background,
        };
        let layer = AccessCounterLayer::new(recorder)
            .identity(self.client())?
            .facets([Facet::Status, Facet::Agent])
            .delivery(delivery);
        let layer = self.counting.ignored.apply(layer, self.client());
        let layer = self.counting.labels.apply(layer, self.client())?;
        if !self.counting.distributions {
            return Ok(layer);
        }
        Ok(layer.distributions([Measure::Time, Measure::Body, Measure::Size, Measure::Status]))
    }

    /// Returns the name of the site, if known.
    pub(super) fn site_name(&self) -> Option<String> {
        self.counting.labels.site_name()
    }

    /// Returns the database of countries.
    pub(super) const fn country_database(&self) -> Option<&CountryDatabase> {
        self.counting.labels.country_database()
    }

    /// Returns how to determine client addresses.
    pub(super) fn client(&self) -> Address {
        Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(self.server.trust_hops)
    }

    /// Returns the client timeouts.
    pub(super) const fn timeouts(&self) -> Timeouts {
        Timeouts { head: self.server.request_timeout, drain: self.server.drain_timeout }
    }
}
