//! A fleet: the stores of several sites or regions, read as one.
//!
//! Each region counts into its own store and does not need a connection to the others, so a partition between regions
//! neither loses nor delays any hits. A [`Fleet`] reads all of these stores and adds up their counts.
//!
//! ```
//! use std::num::NonZeroU32;
//! use counter_core::fleet::Fleet;
//! use counter_core::{CounterName, Counters, MemoryStore, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In a service, these are e.g. a `RedisStore` per region.
//! let (eu, us) = (MemoryStore::new(), MemoryStore::new());
//! for (store, hits) in [(&eu, 3), (&us, 4)] {
//!     let mut counters = Counters::builder(store.clone()).build()?;
//!     let recorder = counters.recorder();
//!     recorder.record_at(recorder.counter("/"), None, Timestamp::now(), NonZeroU32::new(hits).expect("not 0"));
//!     counters.flush().await?;
//! }
//!
//! // A process in `eu` counts into `eu`, and reads both.
//! let fleet = Fleet::new("eu", eu).site("us", us)?;
//! let (stats, page) = (Counters::builder(fleet).build()?.stats(), ["/".parse::<CounterName>()?]);
//! assert_eq!(stats.lifetimes(&page).await?, [7]);
//! let us = stats.of_site("us").expect("a site of the fleet");
//! assert_eq!(us.lifetimes(&page).await?, [4]);
//! # Ok(())
//! # }
//! ```

mod merge;
mod all;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use super::store::Site;
use super::store::{Extent, Store, Unreadable, reason};
use crate::error::Error;
use crate::family::future::StoreFuture;

/// A store that counts into the store of this process, and reads the stores of all sites.
///
/// Counts, distributions and lifetimes add up, and sketches of visitors are merged. A visitor of several sites counts
/// once per site, so [`Uniques`](crate::visits::Uniques) are an upper bound, unless the sites
/// [share visitors](Self::shared_visitors).
///
/// If a site can't be read within the [timeout](Self::timeout), this affects only its part: counts are those of the
/// other sites, along with an [`Unreadable`] entry that names the site. Lifetimes and visitors are unreadable then, because
/// their answers cannot state that they are too low. The site has a [failure](Site::failure), and the hint
/// [`SITE_UNREADABLE`](crate::visits::Hint::SITE_UNREADABLE) is raised. Reads leave out the site for the duration of the
/// timeout, and then try again.
///
/// All sites need the same grid, and a store can only be a single site. Otherwise, counts would be missing or would count
/// twice. A site is checked whenever it appears, and can't be read if it does not fit; see
/// [`Stats::check_sites`](crate::Stats::check_sites). The archives
/// of sites are read if all of them retain the same. [`Stats::forget`](crate::Stats::forget) applies to all sites.
/// Counting, cleaning and documents apply to the store of this process. A dump of a fleet is incomplete and says so: dump
/// each [site](crate::Stats::of_site) instead.
#[derive(Clone)]
pub struct Fleet {
    home: Arc<dyn Store>,
    /// Sites that are not read, but whose stores must not be those of other sites.
    earlier: Vec<Site>,
    sites: Vec<Site>,
    timeout: Duration,
    shares_visitors: bool,
}

/// The default timeout.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The replies of the sites that could be read, and the other sites.
struct Replies<T> {
    all: Vec<T>,
    missing: Option<Unreadable>,
}

/// The error returned when a fleet already has a site of this name.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuplicateSite {
    /// The name.
    pub name: String,
}

impl Fleet {
    /// Creates a fleet of the site in which this process counts. Other sites can be [added](Self::site).
    #[must_use]
    pub fn new(name: &str, home: impl Store) -> Self {
        let home: Arc<dyn Store> = Arc::new(home);
        Self::of(Arc::clone(&home), Site::new(name, home, TIMEOUT))
    }

    /// Creates a fleet of a single site, for a process that is not a site itself, such as a dashboard. Its own documents and
    /// hits are stored in `home`. Those hits are not included in any answers.
    ///
    /// ```
    /// use counter_core::fleet::Fleet;
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (shop, blog) = (MemoryStore::new(), MemoryStore::new());
    /// let fleet = Fleet::reader(MemoryStore::new(), "shop", shop.clone()).site("blog", blog)?;
    /// let error = fleet.clone().site("shop", shop).unwrap_err();
    /// assert_eq!(error.to_string(), "the fleet already has a site with the name shop");
    /// assert_eq!(Counters::builder(fleet).build()?.stats().sites().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reader(home: impl Store, name: &str, site: impl Store) -> Self {
        Self::of(Arc::new(home), Site::new(name, Arc::new(site), TIMEOUT))
    }

    fn of(home: Arc<dyn Store>, site: Site) -> Self {
        Self { home, earlier: Vec::new(), sites: vec![site], timeout: TIMEOUT, shares_visitors: false }
    }

    /// Creates a fleet of the last of these sites of another fleet. Like there, it can't be read if it has the store of an
    /// earlier one.
    pub(super) fn single(sites: &[Site]) -> Option<Self> {
        let (site, earlier) = sites.split_last()?;
        Some(Self { earlier: earlier.to_vec(), ..Self::of(Arc::clone(&site.store), site.clone()) })
    }

    /// Adds a site.
    ///
    /// # Errors
    /// Returns an error if there already is a site of this name.
    pub fn site(mut self, name: &str, store: impl Store) -> Result<Self, DuplicateSite> {
        if self.sites.iter().any(|site| site.name() == name) {
            return Err(DuplicateSite { name: name.to_owned() });
        }
        self.sites.push(Site::new(name, Arc::new(store), self.timeout));
        Ok(self)
    }

    /// Sets the maximum time to wait for a site. Default: 2 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.sites.iter().for_each(|site| site.set_timeout(timeout));
        self
    }

    /// States that all sites identify visitors by the same [`VisitorKey`](crate::visitor::VisitorKey), so that a visitor of
    /// several sites counts once. This is not the case for salts, because each store has its own.
    #[must_use]
    pub const fn shared_visitors(mut self) -> Self {
        self.shares_visitors = true;
        self
    }

    /// Reads all sites. Fails if none of them can be read.
    async fn read<'a, T>(
        &'a self,
        read: impl Fn(&'a dyn Store) -> StoreFuture<'a, T>,
    ) -> Result<Replies<T>, Error> {
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for (site, reply) in self.sites.iter().zip(Site::read_all(&self.earlier, &self.sites, read).await) {
            match reply {
                Ok(reply) => all.push(reply),
                Err(error) => failed.push((site.name(), error)),
            }
        }
        if failed.is_empty() {
            return Ok(Replies { all, missing: None });
        }
        let names: Vec<_> = failed.iter().map(|(name, _)| *name).collect();
        let reasons: Vec<_> =
            failed.iter().map(|(name, error)| format!("{name}: {}", reason(error))).collect();
        let reason = match &*failed {
            [(_, error)] => reason(error),
            _ => reasons.join("; "),
        };
        let missing = Unreadable::new(format!("site {}", names.join(", ")), reason).with_extent(Extent::Part);
        if all.is_empty() {
            return Err(missing.into());
        }
        Ok(Replies { all, missing: Some(missing) })
    }
}

impl fmt::Display for DuplicateSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fleet already has a site with the name {}", self.name)
    }
}

impl std::error::Error for DuplicateSite {}

crate::log::debug::debug_in_full!(DuplicateSite);

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.sites).finish()
    }
}
