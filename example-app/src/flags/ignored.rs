//! Options for requests that do not count.

use std::net::IpAddr;

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
        value_delimiter = ',',
        value_parser = network
    )]
    networks: Vec<IpNet>,
}

impl Ignored {
    /// Ignores these networks and browsers with the cookie of the dashboard.
    pub(crate) fn apply(&self, layer: AccessCounterLayer, client: Address) -> AccessCounterLayer {
        layer.ignore([Ignore::networks(client, self.networks.iter().copied()), Ignore::cookie()])
    }
}

/// Parses a network.
fn network(text: &str) -> Result<IpNet, &'static str> {
    let address = text.split_once('/').and_then(|(address, _)| address.parse().ok());
    text.parse().map_err(|_| match address {
        Some(IpAddr::V4(_)) => "the number after the slash must be from 0 to 32, as in 192.0.2.0/24",
        Some(IpAddr::V6(_)) => "the number after the slash must be from 0 to 128, as in 2001:db8::/32",
        None => "expected a network, such as 192.0.2.0/24, or 192.0.2.1/32 for a single address",
    })
}
