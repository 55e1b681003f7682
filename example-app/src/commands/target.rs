//! The store and the rules by which the requests of logs and topics are counted.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use counter_core::visits::{Distribution, Measure};
use counter_core::{AnyStore, Counters, Secret};
use counter_layer::{AccessCounterLayer, Facet, Identity, Rule, Rules};

use crate::flags::{grid, labels, store};

/// The flags that `import` and `consume` share.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// File with rules as JSON: the counters of paths.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Template that is a counter, such as /articles/{id}; may be repeated.
    #[arg(long = "route", value_name = "TEMPLATE")]
    routes: Vec<String>,
    #[command(flatten)]
    store: store::Settings,
    #[command(flatten)]
    grid: grid::Settings,
    /// Keep distributions, too, as a site keeps them with the same flag, of what is told here.
    #[arg(long, env)]
    distributions: bool,
    #[command(flatten)]
    labels: labels::Labels,
    /// Secret under which visitors are hashed, the same as that of the site.
    #[arg(long, env = "COUNTER_SECRET", hide_env_values = true)]
    pub(crate) secret: Option<Secret>,
}

impl Target {
    #[cfg(feature = "kafka")]
    pub(crate) async fn counters(&self) -> Result<Counters, Box<dyn Error>> {
        Ok(self.open().await?.1)
    }

    /// The store, and the visits over it.
    pub(crate) async fn open(&self) -> Result<(AnyStore, Counters), Box<dyn Error>> {
        let store = self.store.open().await?.store;
        let mut counters = Counters::builder(store.clone());
        if let Some(secret) = self.secret.clone() {
            counters = counters.secret(secret);
        }
        if self.distributions {
            counters = counters.distributions(Distribution::precisions());
        }
        let counters = self.grid.build(counters).await?;
        Ok((store, counters))
    }

    /// The layer as the site has it, whose requests are counted from elsewhere.
    pub(crate) fn layer(
        &self,
        counters: &Counters,
        client: impl Into<Identity>,
    ) -> Result<AccessCounterLayer, Box<dyn Error>> {
        let mut layer = AccessCounterLayer::new(counters.recorder())
            .identity(client)?
            .facets([Facet::Status, Facet::Agent]);
        layer = self.labels.choose(layer)?;
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
        // As a template of axum, a slash alone is the home page.
        let pattern = if route == "/" { "" } else { route };
        rules = rules.rule(Rule::counter(route.clone()).pattern(pattern));
    }
    Ok(Some(rules.build()?))
}
