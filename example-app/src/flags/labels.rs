//! Label options.

use clap::Args;
use counter_core::visits::LabelError;
use counter_layer::{AccessCounterLayer, Label};

/// Options for labels.
#[derive(Debug, Args)]
#[command(next_help_heading = "Counting")]
pub(crate) struct Labels {
    /// Count referrers, campaigns, devices, browsers, languages.
    #[arg(long, env = "COUNTER_LABELS")]
    labels: bool,
    /// Host that is not a referrer, can be repeated.
    #[arg(long = "own-host", env = "COUNTER_OWN_HOSTS", value_name = "HOST", value_delimiter = ',')]
    own_hosts: Vec<String>,
}

impl Labels {
    /// Adds the labels to the layer if they are enabled.
    pub(crate) fn apply(&self, layer: AccessCounterLayer) -> Result<AccessCounterLayer, LabelError> {
        if !self.labels {
            return Ok(layer);
        }
        let referrer = self.own_hosts.iter().fold(Label::referrer(), |label, host| label.internal_host(host));
        layer.labels([referrer, Label::campaign(), Label::device(), Label::browser(), Label::language()])
    }
}
