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

/// The flags of the site.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Address to listen on; port 0 chooses a free one.
    #[arg(long, env, default_value = "127.0.0.1:3000")]
    pub(super) listen: SocketAddr,
    #[command(flatten)]
    pub(super) store: store::Settings,
    /// SQLite file of the forum, such as sqlite:forum.db, created if it is missing; without it, the forum is in the file of the counts, or in the process where these are in none. Set it together with --redis, which keeps copies of the forum's counts.
    #[arg(long, env = "DATABASE_URL")]
    pub(super) database: Option<String>,
    /// Time of day, by the site's clock, at which the forum's counts are recounted.
    #[arg(long, env, default_value = "04:00", value_parser = clock::time_of_day)]
    pub(super) recount_at: u32,
    /// Token of the admin pages, at least 16 characters; without it, a random one is generated and printed.
    #[arg(long, env, hide_env_values = true)]
    pub(super) admin_token: Option<String>,
    /// Let browsers send the session of the admin pages over TLS only; it is set by itself if a trusted proxy sends X-Forwarded-Proto: https.
    #[arg(long, env)]
    pub(super) secure_cookie: bool,
    /// Secret under which visitors are hashed: 32 hexadecimal digits, such as `openssl rand -hex 16` prints, the same for all instances over one Redis. Without it, each instance applies its limits separately. It is never stored or shown.
    #[arg(long, env = "COUNTER_SECRET", hide_env_values = true)]
    pub(super) secret: Option<String>,
    /// Seconds between two flushes.
    #[arg(long, env, default_value = "1", value_parser = clock::seconds)]
    pub(super) flush_interval: Duration,
    /// Directory in which counts that the store does not have yet survive the process, created if it is missing; several instances may share it.
    #[arg(long, env)]
    pub(super) spool: Option<PathBuf>,
    /// Database in which closed hours and days are kept for years, longer than in the store: sqlite:archive.db, postgres://user@127.0.0.1/archive or mysql://user@127.0.0.1/archive. Its tables are made.
    #[arg(long, env = "ARCHIVE_URL", hide_env_values = true, value_name = "URL")]
    pub(super) archive: Option<String>,
    /// Seconds between two looks for hours and days to copy into the archive; they are closed for two minutes by then.
    #[arg(long, env, default_value = "30", value_parser = clock::seconds)]
    pub(super) archive_interval: Duration,
    /// Keep distributions of how long requests took, how large the responses were and how they ended.
    #[arg(long, env)]
    pub(super) distributions: bool,
    #[command(flatten)]
    pub(super) labels: labels::Labels,
    #[command(flatten)]
    pub(super) watch: watch::Settings,
    /// Number of trusted proxies in front of this server that append to X-Forwarded-For.
    #[arg(long, env, default_value_t = 0)]
    pub(super) trust_hops: usize,
    #[command(flatten)]
    pub(super) grid: grid::Settings,
    /// Seconds that a response may wait until its hit is stored; without it, responses do not wait.
    #[arg(long, env, value_parser = clock::seconds)]
    pub(super) confirm: Option<Duration>,
    /// Seconds that a client may take for the head of a request, for its body, and between two requests.
    #[arg(long, env, default_value = "30", value_parser = clock::seconds)]
    pub(super) request_timeout: Duration,
    /// Seconds that requests in flight may take after the server was told to stop.
    #[arg(long, env, default_value = "10", value_parser = clock::seconds)]
    pub(super) drain_timeout: Duration,
    /// Simulate the visits of people, bots and broken links, in days of four minutes.
    #[arg(long, env)]
    pub(super) demo_traffic: bool,
}

impl Settings {
    /// Builds the counters over a store, and its archive if there is one.
    ///
    /// # Errors
    /// Fails when the spool has no use, and when the store keeps other buckets.
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
                return Err(
                    "--spool is for a store that outlives the process, and one in memory does not".into()
                );
            }
            counters = counters.spool(folder);
        }
        self.grid.build_in_time(counters).await
    }

    /// Returns the access to the admin pages by a token.
    ///
    /// # Errors
    /// Fails when the token is too short.
    pub(super) fn access(&self, token: &str) -> Result<Access, AccessError> {
        let access = Access::bearer(token)?.clients(self.client());
        let access = access.may_record().may_repair().may_silence().may_note();
        Ok(if self.secure_cookie { access.secure_cookie() } else { access })
    }

    /// Builds the layer, which records requests here.
    ///
    /// # Errors
    /// Fails when proxies or labels are wrong.
    pub(super) fn layer(&self, recorder: Recorder) -> Result<AccessCounterLayer, Box<dyn Error>> {
        let delivery = match self.confirm {
            Some(timeout) => Delivery::BeforeResponse { timeout },
            None => Delivery::Background,
        };
        let layer = AccessCounterLayer::new(recorder)
            .identity(self.client())?
            .facets([Facet::Status, Facet::Agent])
            .delivery(delivery);
        let layer = self.labels.choose(layer)?;
        if !self.distributions {
            return Ok(layer);
        }
        Ok(layer.distributions([Measure::Time, Measure::Body, Measure::Size, Measure::Status]))
    }

    /// Returns how the address of a client is found.
    pub(super) fn client(&self) -> Address {
        Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(self.trust_hops)
    }

    /// Returns how long clients may keep the server waiting.
    pub(super) const fn timeouts(&self) -> Timeouts {
        Timeouts { head: self.request_timeout, drain: self.drain_timeout }
    }
}
