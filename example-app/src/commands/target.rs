//! Store and rules for requests from logs and topics.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use counter_core::archive::Archive;
use counter_core::visits::{Distribution, Measure};
use counter_core::{AnyStore, Counters, Secret};
use counter_layer::{AccessCounterLayer, Address, Facet, Rule, Rules};

use crate::flags::store::{Mode, check_archive_url};
use crate::flags::{grid, ignored, labels, store};
use crate::problem::At;

/// Options that are shared by `import` and `consume`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Counting")]
pub(crate) struct Target {
    /// JSON file with rules that map paths to counters.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Path template, e.g. /articles/{id}, can be repeated.
    #[arg(long = "route", value_name = "TEMPLATE")]
    routes: Vec<String>,
    /// Record distributions, like on the site.
    #[arg(long, env = "COUNTER_DISTRIBUTIONS")]
    distributions: bool,
    #[command(flatten)]
    labels: labels::Labels,
    #[command(flatten)]
    ignored: ignored::Ignored,
    /// Secret to hash visitors, like on the site.
    #[arg(long, env = "COUNTER_SECRET", hide_env_values = true, value_name = "DIGITS")]
    secret: Option<String>,
    #[command(flatten)]
    store: store::Settings,
    #[command(flatten)]
    grid: grid::Settings,
}

/// The open store, with the counters.
pub(crate) struct OpenTarget {
    pub(crate) store: AnyStore,
    pub(crate) counters: Counters,
    pub(crate) archive: Option<Archive>,
}

impl Target {
    #[cfg(feature = "kafka")]
    pub(crate) async fn counters(&self) -> Result<Counters, Box<dyn Error>> {
        Ok(self.open(None).await?.counters)
    }

    /// Opens the store and the archive, and builds the counters.
    pub(crate) async fn open(&self, archive: Option<&str>) -> Result<OpenTarget, Box<dyn Error>> {
        // An invalid option should not create the store.
        let secret = self.secret.as_deref().map(str::parse::<Secret>).transpose().at("--secret")?;
        self.rules()?;
        self.labels.check()?;
        self.grid.check()?;
        archive.map(check_archive_url).transpose()?;
        let opened = self.store.open(Mode::Write).await?;
        let archive = match archive {
            Some(address) => Some(Archive::new(opened.store.clone(), opened.archive(address).await?.0)),
            None => None,
        };
        let store = opened.store.clone();
        let mut counters = match &archive {
            Some(archive) => Counters::builder(archive.clone()),
            None => Counters::builder(store.clone()),
        };
        if let Some(secret) = secret {
            counters = counters.secret(secret);
        }
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        let counters = self.grid.build(counters, &opened.option).await?;
        Ok(OpenTarget { store, counters, archive })
    }

    /// Builds a layer with the same settings as the site. It is only used to count records.
    pub(crate) fn layer(
        &self,
        counters: &Counters,
        client: Address,
    ) -> Result<AccessCounterLayer, Box<dyn Error>> {
        let mut layer = AccessCounterLayer::new(counters.recorder())
            .identity(client.clone())?
            .facets([Facet::Status, Facet::Agent]);
        layer = self.ignored.apply(layer, client.clone());
        layer = self.labels.apply(layer, client)?;
        if let Some(rules) = self.rules()? {
            layer = layer.rules(rules);
        }
        if self.distributions {
            layer = layer.distributions([Measure::Time, Measure::Body, Measure::Size, Measure::Status]);
        }
        Ok(layer)
    }

    /// Reads the rules.
    fn rules(&self) -> Result<Option<Rules>, Box<dyn Error>> {
        let (mut rules, place) = match &self.rules {
            Some(file) => {
                let place = format!("--rules {}", file.display());
                let text = std::fs::read_to_string(file).at(&place)?;
                (serde_json::from_str(&text).at(&place)?, place)
            }
            None if self.routes.is_empty() => return Ok(None),
            None => (Rules::builder(), "--route".to_owned()),
        };
        for route in &self.routes {
            // In axum, the home page is `/`, but in a rule it is the empty pattern.
            let pattern = if route == "/" { "" } else { route };
            rules = rules.rule(Rule::counter(route.clone()).pattern(pattern));
        }
        rules.build().map(Some).at(place)
    }
}
