//! Label options.

use std::error::Error;

use axum::http::HeaderName;
use clap::Args;
use counter_layer::{AccessCounterLayer, Address, CountryDatabase, InternalHost, Label};

use crate::problem::{At, explain};

/// Options for labels.
#[derive(Debug, Args)]
#[command(next_help_heading = "Counting")]
pub(crate) struct Labels {
    /// Count sources, addresses, campaigns, clients, bots.
    #[arg(long, env = "COUNTER_LABELS", default_value_if("demo_traffic", "true", "true"))]
    labels: bool,
    /// Host that is not a referrer, can be repeated.
    #[arg(long = "own-host", env = "COUNTER_OWN_HOSTS", value_name = "HOST", value_delimiter = ',')]
    own_hosts: Vec<InternalHost>,
    /// Pattern of paths to keep private, can be repeated.
    #[arg(
        long = "private-path",
        env = "COUNTER_PRIVATE_PATHS",
        value_name = "PATTERN",
        value_delimiter = ',',
        requires = "labels"
    )]
    private_paths: Vec<String>,
    /// Count mediums, contents and terms of campaigns.
    #[arg(long, env = "COUNTER_CAMPAIGN_DETAILS", requires = "labels")]
    campaign_details: bool,
    /// Count missing pages, and the hosts that link to them.
    #[arg(long, env = "COUNTER_MISSING_PAGES", default_value_if("demo_traffic", "true", "true"))]
    missing_pages: bool,
    /// Header with the country, set by a trusted proxy.
    #[arg(long, env = "COUNTER_COUNTRY_HEADER", value_name = "NAME", value_parser = header, requires = "labels")]
    country_header: Option<HeaderName>,
    /// File with the countries of networks (MaxMind DB).
    #[arg(
        long = "country-file",
        env = "COUNTER_COUNTRY_FILE",
        value_name = "FILE",
        value_parser = open,
        requires = "labels",
        conflicts_with = "country_header"
    )]
    country_database: Option<CountryDatabase>,
}

/// Parses the name of a header.
fn header(name: &str) -> Result<HeaderName, &'static str> {
    name.parse().map_err(|_| "expected the name of a header, such as CF-IPCountry")
}

/// Opens a database of countries.
fn open(path: &str) -> Result<CountryDatabase, String> {
    CountryDatabase::open(path).map_err(|error| explain(&error))
}

impl Labels {
    /// Checks the patterns, before a store is created.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is invalid.
    pub(crate) fn check(&self) -> Result<(), Box<dyn Error>> {
        self.address().map(drop)
    }

    fn address(&self) -> Result<Label, Box<dyn Error>> {
        Label::address().except_paths(&self.private_paths).at("--private-path")
    }

    /// Returns the name of the site: its first own host.
    pub(crate) fn site_name(&self) -> Option<String> {
        self.own_hosts.first().map(ToString::to_string)
    }

    /// Returns the database of countries.
    pub(crate) const fn country_database(&self) -> Option<&CountryDatabase> {
        self.country_database.as_ref()
    }

    /// Adds views to the layer, and labels if they are enabled.
    pub(crate) fn apply(
        &self,
        layer: AccessCounterLayer,
        client: Address,
    ) -> Result<AccessCounterLayer, Box<dyn Error>> {
        let from_outside = |label| self.own_hosts.iter().cloned().fold(label, Label::internal_host);
        let [source, referrer] = [Label::source(), Label::referrer()].map(from_outside);
        let address = self.address()?;
        let by_header = self.country_header.clone().map(|header| Label::country(header, client.clone()));
        let country =
            by_header.or_else(|| Some(Label::country_from(self.country_database.as_ref()?, client)));
        let country = country.map(Label::people);
        let by_page = [referrer, Label::device(), Label::bot()].map(Label::by_page);
        let [source, address, campaign] = [source, address, Label::campaign()].map(Label::people);
        let of_site = [source, address, campaign, Label::browser(), Label::language()];
        let details = [Label::medium(), Label::content(), Label::term()];
        let details = details.into_iter().filter(|_| self.campaign_details);
        let clients = by_page.into_iter().chain(of_site).chain(details).chain(country);
        let missing = [Label::not_found(), Label::broken_link()];
        let labels =
            clients.filter(|_| self.labels).chain(missing.into_iter().filter(|_| self.missing_pages));
        Ok(layer.views().labels(labels)?)
    }
}
