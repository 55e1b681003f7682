//! Store and rules for requests from logs and topics.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use counter_core::archive::Archive;
use counter_core::visits::{Distribution, Measure};
use counter_core::{AnyStore, Counters, Secret};
use counter_layer::{AccessCounterLayer, Address, Facet, Rule, Rules};

use crate::flags::{grid, ignored, labels, store};

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
    pub(crate) secret: Option<Secret>,
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
        let opened = self.store.open().await?;
        let archive = match archive {
            Some(address) => Some(Archive::new(opened.store.clone(), opened.archive(address).await?.0)),
            None => None,
        };
        let store = opened.store;
        let mut counters = match &archive {
            Some(archive) => Counters::builder(archive.clone()),
            None => Counters::builder(store.clone()),
        };
        if let Some(secret) = self.secret.clone() {
            counters = counters.secret(secret);
        }
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        let counters = self.grid.build(counters).await?;
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
        if let Some(rules) = rules(self.rules.as_deref(), &self.routes)? {
            layer = layer.rules(rules);
        }
        if self.distributions {
            layer = layer.distributions([Measure::Time, Measure::Body, Measure::Size, Measure::Status]);
        }
        Ok(layer)
    }
}

fn rules(file: Option<&Path>, routes: &[String]) -> Result<Option<Rules>, Box<dyn Error>> {
    let mut rules = match file {
        Some(file) => {
            let text =
                std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?
        }
        None if routes.is_empty() => return Ok(None),
        None => Rules::builder(),
    };
    for route in routes {
        // In axum, the home page is `/`, but in a rule it is the empty pattern.
        let pattern = if route == "/" { "" } else { route };
        rules = rules.rule(Rule::counter(route.clone()).pattern(pattern));
    }
    Ok(Some(rules.build()?))
}
