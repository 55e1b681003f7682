//! Sites to show on the dashboard.

use std::error::Error;

use clap::Args;
use counter_core::fleet::Fleet;
use counter_core::stores::Namespace;
use counter_core::visits::{GridMismatch, Store};
use counter_core::{ErrorKind, Stats};

use super::store::{self, Mode};
use crate::problem::{At, Problem, explain};

/// Options for a dashboard of several sites.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Dashboard")]
pub(crate) struct Settings {
    /// Site to show instead of the store; repeatable.
    #[arg(
        long = "site",
        env = "COUNTER_SITES",
        hide_env_values = true,
        value_name = "NAME=URL",
        value_delimiter = ' ',
        conflicts_with = "archive"
    )]
    sites: Vec<String>,
}

/// A name, and the URL of a store. Redis URLs may end with a prefix for keys, as in `redis://127.0.0.1:6379#shop:`.
struct Site<'a> {
    name: &'a str,
    url: &'a str,
    prefix: Option<&'a str>,
}

impl Settings {
    /// Returns `true` without any sites.
    pub(crate) const fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Checks the names and prefixes, before a store is created.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no name or URL, if a prefix is invalid, or if two sites have the same name.
    pub(crate) fn check_names(&self) -> Result<(), Box<dyn Error>> {
        self.sites()?.iter().try_for_each(|site| site.namespace().map(drop))
    }

    /// Connects to the stores of the sites. `home` stores the hits of this process.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL of a site is invalid, or if it is a file that does not exist.
    pub(crate) async fn fleet(&self, home: impl Store) -> Result<Fleet, Box<dyn Error>> {
        let mut stores = Vec::new();
        for site in self.sites()? {
            let store = store::connect(site.url, site.namespace()?.as_ref(), Mode::ReadLater).await;
            let (store, _) = store.at(site.option())?;
            stores.push((site.name, store));
        }
        let mut stores = stores.into_iter();
        let (name, first) = stores.next().ok_or("--site: a site is missing")?;
        stores.try_fold(Fleet::reader(home, name, first), |fleet, (name, store)| Ok(fleet.site(name, store)?))
    }

    /// Rejects sites that do not fit, because their counts would be missing, or would count twice. Sites that do not
    /// respond are logged.
    ///
    /// # Errors
    ///
    /// Returns an error if the buckets of a site are different, or if two sites are the same.
    pub(crate) async fn check(&self, stats: &Stats) -> Result<(), Box<dyn Error>> {
        for (site, check) in self.sites()?.iter().zip(stats.check_sites().await) {
            let Err(error) = check else { continue };
            if *error.kind() != ErrorKind::Rejected {
                let reason = explain(&Problem::new(site.option(), error));
                tracing::warn!("{reason}; starting without this site, which will be shown when it responds");
                continue;
            }
            let reason = error.source();
            let remedy = match reason.is_some_and(|reason| reason.is::<GridMismatch>()) {
                true => {
                    "all sites of a dashboard need the same buckets: set --utc-offset or --time-zone like this site"
                }
                false => "remove this site, or correct its URL",
            };
            return Err(format!("--site {}: {}; {remedy}", site.name, explain(&error))).map_err(Into::into);
        }
        Ok(())
    }

    /// Parses the sites.
    fn sites(&self) -> Result<Vec<Site<'_>>, Box<dyn Error>> {
        let mut sites: Vec<Site<'_>> = Vec::new();
        for text in &self.sites {
            let site = Site::of(text)?;
            if sites.iter().any(|other| other.name == site.name) {
                return Err("another site has this name; choose a different one").at(site.option());
            }
            sites.push(site);
        }
        Ok(sites)
    }
}

impl<'a> Site<'a> {
    /// Parses a site. This is not done by the parser of the options, because its messages contain passwords.
    fn of(text: &'a str) -> Result<Self, Box<dyn Error>> {
        let named = text.split_once('=').filter(|(name, _)| !name.is_empty() && !name.contains("://"));
        let (name, url) = named
            .ok_or("expected NAME=URL, as in shop=redis://127.0.0.1:6379; a space separates sites")
            .at(format!("--site {}", store::without_password(text)))?;
        let (url, prefix) = url.rsplit_once('#').map_or((url, None), |(url, prefix)| (url, Some(prefix)));
        Ok(Self { name, url, prefix })
    }

    fn namespace(&self) -> Result<Option<Namespace>, Box<dyn Error>> {
        self.prefix.map(str::parse).transpose().at(self.option())
    }

    /// Names the site in a message.
    fn option(&self) -> String {
        format!("--site {}={}", self.name, store::without_password(self.url))
    }
}
