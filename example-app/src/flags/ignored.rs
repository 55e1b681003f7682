//! Options for requests that do not count.

use clap::Args;
use counter_layer::ipnet::IpNet;
use counter_layer::{AccessCounterLayer, Address, Ignore};

/// Options for requests that do not count.
#[derive(Debug, Args)]
#[command(next_help_heading = "Counting")]
pub(crate) struct Ignored {
    /// Network to ignore, e.g. 192.0.2.0/24, can be repeated.
    #[arg(
        long = "ignore-network",
        env = "COUNTER_IGNORE_NETWORKS",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    networks: Vec<IpNet>,
}

impl Ignored {
    /// Ignores these networks and browsers with the cookie of the dashboard.
    pub(crate) fn apply(&self, layer: AccessCounterLayer, client: Address) -> AccessCounterLayer {
        layer.ignore([Ignore::networks(client, self.networks.iter().copied()), Ignore::cookie()])
    }
}
