//! The choice of labels: what requests have in common beside their pages.

use clap::Args;
use counter_core::visits::LabelError;
use counter_layer::{AccessCounterLayer, Label};

/// The flags of labels.
#[derive(Debug, Args)]
pub(crate) struct Labels {
    /// Count where requests come from: referring sites, campaigns, devices, browsers and languages.
    #[arg(long, env)]
    labels: bool,
    /// Host of the site itself, whose pages are no referrers, with all hosts below it; may be repeated.
    #[arg(long = "own-host", env = "OWN_HOSTS", value_name = "HOST", value_delimiter = ',')]
    own_hosts: Vec<String>,
}

impl Labels {
    /// Counts them by this layer, where that is chosen.
    pub(crate) fn choose(&self, layer: AccessCounterLayer) -> Result<AccessCounterLayer, LabelError> {
        if !self.labels {
            return Ok(layer);
        }
        let referrer = self.own_hosts.iter().fold(Label::referrer(), |label, host| label.own_host(host));
        layer.labels([referrer, Label::campaign(), Label::device(), Label::browser(), Label::language()])
    }
}
