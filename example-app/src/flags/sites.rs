//! Sites to show on the dashboard.

use std::error::Error;
use std::str::FromStr;

use clap::Args;
use counter_core::fleet::Fleet;
use counter_core::stores::Namespace;
use counter_core::visits::{GridMismatch, Store};
use counter_core::{ErrorKind, Stats};

use super::store::{self, Mode};
use crate::problem::{At, explain};

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
    sites: Vec<Site>,
}

/// A name, and the URL of a store. Redis URLs may end with a prefix for keys, as in `redis://127.0.0.1:6379#shop:`.
#[derive(Clone, Debug)]
struct Site {
    name: String,
    url: String,
    namespace: Option<Namespace>,
}

impl Settings {
    /// Returns `true` without any sites.
    pub(crate) const fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Names the sites in a message.
    pub(crate) fn option(&self) -> String {
        let names: Vec<_> = self.sites.iter().map(|site| &*site.name).collect();
        format!("--site {}", names.join(", "))
    }

    /// Connects to the stores of the sites. `home` stores the hits of this process.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL of a site is invalid, if it is a file that does not exist, or if two sites have the same
    /// name.
    pub(crate) async fn fleet(&self, home: impl Store) -> Result<Fleet, Box<dyn Error>> {
        let mut sites = Vec::new();
        for Site { name, url, namespace } in &self.sites {
            let store = store::connect(url, namespace.as_ref(), Mode::ReadLater).await;
            let (store, _) = store.at(format!("--site {name}={}", store::without_password(url)))?;
            sites.push((name, store));
        }
        let mut sites = sites.into_iter();
        let (name, first) = sites.next().ok_or("--site: a site is missing")?;
        sites.try_fold(Fleet::reader(home, name, first), |fleet, (name, store)| {
            let named = fleet.site(name, store);
            named.at(format!("--site {name}"))
        })
    }
}

/// Rejects sites that do not fit, because their counts would be missing, or would count twice. Sites that do not respond
/// are skipped.
///
/// # Errors
///
/// Returns an error if the buckets of a site are different, or if two sites are the same.
pub(crate) async fn check(stats: &Stats) -> Result<(), Box<dyn Error>> {
    for (site, check) in stats.sites().iter().zip(stats.check_sites().await) {
        let Err(error) = check else { continue };
        if *error.kind() != ErrorKind::Rejected {
            continue;
        }
        let reason = error.source();
        let remedy = match reason.is_some_and(|reason| reason.is::<GridMismatch>()) {
            true => {
                "all sites of a dashboard need the same buckets: set --utc-offset or --time-zone like this site"
            }
            false => "remove this site, or correct its URL",
        };
        return Err(format!("--site {}: {}; {remedy}", site.name(), explain(&error))).map_err(Into::into);
    }
    Ok(())
}

impl FromStr for Site {
    type Err = Box<dyn Error + Send + Sync>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, url) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=URL")?;
        let (url, prefix) = url.rsplit_once('#').map_or((url, None), |(url, prefix)| (url, Some(prefix)));
        let namespace = prefix.map(str::parse).transpose()?;
        Ok(Self { name: name.to_owned(), url: url.to_owned(), namespace })
    }
}
