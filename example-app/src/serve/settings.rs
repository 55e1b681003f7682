use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use counter_admin::{Access, AccessError};
use counter_core::archive::Archive;
use counter_core::visits::{Distribution, Measure};
use counter_core::{Counters, Recorder, Secret};
use counter_layer::{AccessCounterLayer, Address, Delivery, Facet, Forwarded, Identity};

use super::server::Timeouts;
use super::watch;
use crate::flags::store::Opened;
use crate::flags::{clock, grid, labels, store};

/// Options of the site.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Listen address. With port 0, the system will choose a free port.
    #[arg(long, env = "COUNTER_LISTEN", default_value = "127.0.0.1:3000")]
    pub(super) listen: SocketAddr,
    #[command(flatten)]
    pub(super) store: store::Settings,
    /// SQLite file for the forum, e.g. sqlite:forum.db. It will be created if it does not exist. By default,
    /// the forum uses the same file as the counts, or memory if the counts are not in a file. You should set
    /// this if the counts are in Redis, because Redis only stores copies of the forum counts.
    #[arg(long, env = "COUNTER_DATABASE")]
    pub(super) database: Option<String>,
    /// Local time of day at which the forum counts are recalculated.
    #[arg(long, env = "COUNTER_RECOUNT_AT", default_value = "04:00", value_parser = clock::time_of_day)]
    pub(super) recount_at: u32,
    /// Token for the admin pages, at least 16 characters. By default, a random token is generated and
    /// printed.
    #[arg(long, env = "COUNTER_ADMIN_TOKEN", hide_env_values = true)]
    pub(super) admin_token: Option<String>,
    /// Only send the session cookie of the admin pages over HTTPS. This is always the case if a trusted proxy
    /// sends X-Forwarded-Proto: https.
    #[arg(long, env = "COUNTER_SECURE_COOKIE")]
    pub(super) secure_cookie: bool,
    /// Secret for hashing visitors: 32 hexadecimal digits, e.g. from `openssl rand -hex 16`. It must be the
    /// same on all instances that share a store. By default, each instance uses a random secret, so rate
    /// limits apply per instance. The secret is never stored or shown.
    #[arg(long, env = "COUNTER_SECRET", hide_env_values = true)]
    pub(super) secret: Option<String>,
    /// Seconds between writes to the store.
    #[arg(long, env = "COUNTER_FLUSH_INTERVAL", default_value = "1", value_parser = clock::seconds)]
    pub(super) flush_interval: Duration,
    /// Directory for counts that are not in the store yet, so that they survive a crash. It will be created
    /// if it does not exist, and can be shared by multiple instances.
    #[arg(long, env = "COUNTER_SPOOL")]
    pub(super) spool: Option<PathBuf>,
    /// Database in which hours and days are kept for years, even if they expire in the store:
    /// sqlite:archive.db, postgres://user@127.0.0.1/archive or mysql://user@127.0.0.1/archive. Tables will be
    /// created.
    #[arg(long, env = "COUNTER_ARCHIVE", hide_env_values = true, value_name = "URL")]
    pub(super) archive: Option<String>,
    /// Seconds between copies to the archive. Hours and days are copied at least two minutes after they end.
    #[arg(long, env = "COUNTER_ARCHIVE_INTERVAL", default_value = "30", value_parser = clock::seconds)]
    pub(super) archive_interval: Duration,
    /// Record distributions of response times, body sizes and status codes.
    #[arg(long, env = "COUNTER_DISTRIBUTIONS")]
    pub(super) distributions: bool,
    #[command(flatten)]
    pub(super) labels: labels::Labels,
    #[command(flatten)]
    pub(super) watch: watch::Settings,
    /// Number of trusted proxies in front of this server that append to X-Forwarded-For.
    #[arg(long, env = "COUNTER_TRUST_HOPS", default_value_t = 0)]
    pub(super) trust_hops: usize,
    #[command(flatten)]
    pub(super) grid: grid::Settings,
    /// Maximum number of seconds that a response will wait for its hit to be stored. By default, responses do
    /// not wait.
    #[arg(long, env = "COUNTER_CONFIRM", value_parser = clock::seconds)]
    pub(super) confirm: Option<Duration>,
    /// Seconds to wait for a request head, for a request body, and for the next request on a connection.
    #[arg(long, env = "COUNTER_REQUEST_TIMEOUT", default_value = "30", value_parser = clock::seconds)]
    pub(super) request_timeout: Duration,
    /// Seconds to wait for requests in flight during shutdown.
    #[arg(long, env = "COUNTER_DRAIN_TIMEOUT", default_value = "10", value_parser = clock::seconds)]
    pub(super) drain_timeout: Duration,
    /// Simulate visitors, bots and broken links. A simulated day takes four minutes.
    #[arg(long, env = "COUNTER_DEMO_TRAFFIC")]
    pub(super) demo_traffic: bool,
}

impl Settings {
    /// Builds the counters for the store and the archive.
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
            None => Counters::builder(opened.store.clone()),
        };
        counters = counters.flush_interval(self.flush_interval);
        if let Some(secret) = secret {
            counters = counters.secret(secret);
        }
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        if let Some(folder) = &self.spool {
            if opened.is_in_memory {
                return Err("--spool requires a store that is not in memory".into());
            }
            counters = counters.spool(folder);
        }
        self.grid.build_with_timeout(counters).await
    }

    /// Returns the access rules for the admin pages.
    ///
    /// # Errors
    ///
    /// Returns an error if the token is too short.
    pub(super) fn access(&self, token: &str) -> Result<Access, AccessError> {
        let access = Access::bearer(token)?.clients(self.client());
        let access = access.may_record().may_repair().may_silence().may_note();
        Ok(if self.secure_cookie { access.secure_cookie() } else { access })
    }

    /// Builds the layer that counts requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the proxy or label settings are invalid.
    pub(super) fn layer(&self, recorder: Recorder) -> Result<AccessCounterLayer, Box<dyn Error>> {
        let delivery = match self.confirm {
            Some(timeout) => Delivery::BeforeResponse { timeout },
            None => Delivery::Background,
        };
        let layer = AccessCounterLayer::new(recorder)
            .identity(self.client())?
            .facets([Facet::Status, Facet::Agent])
            .delivery(delivery);
        let layer = self.labels.apply(layer)?;
        if !self.distributions {
            return Ok(layer);
        }
        Ok(layer.distributions([Measure::Time, Measure::Body, Measure::Size, Measure::Status]))
    }

    /// Returns how to determine client addresses.
    pub(super) fn client(&self) -> Address {
        Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(self.trust_hops)
    }

    /// Returns the client timeouts.
    pub(super) const fn timeouts(&self) -> Timeouts {
        Timeouts { head: self.request_timeout, drain: self.drain_timeout }
    }
}
