//! A fleet: the stores of several sites or regions, read as one.
//!
//! Each region counts into its own store and does not need a connection to the others, so a partition between regions
//! neither loses nor delays any hits. A [`Fleet`] reads all of these stores and adds up what it finds.
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
//! let fleet = Fleet::new("eu", eu).with("us", us);
//! let stats = Counters::builder(fleet.clone()).build()?.stats();
//! assert_eq!(stats.lifetimes(&["/".parse::<CounterName>()?]).await?, [7]);
//! assert!(fleet.unreadable_sites().is_empty());
//! # Ok(())
//! # }
//! ```

mod merge;
mod all;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::store::{Read, Store, Unreadable};
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;

/// A store that counts into the store of one site, and reads the stores of all sites.
///
/// Counts, distributions and lifetimes add up, and sketches of visitors are merged. If the sites share the secret and the
/// salt of an epoch, a visitor of several sites counts once. Otherwise, the visitors of a fleet are an upper bound.
///
/// If a site can't be read within the [timeout](Self::timeout), this affects only its part: counts are those of the other
/// sites, along with an [`Unreadable`] entry that names the site. Lifetimes and visitors are unreadable then, because their
/// answers cannot state that they are too low. The site is also named by [`unreadable_sites`](Self::unreadable_sites), and
/// raises the hint [`SITE_UNREADABLE`](crate::Hint::SITE_UNREADABLE). It is read again with the next call.
///
/// All sites need the same precisions and offsets. Everything else belongs to the first site: writes, cleaning, documents,
/// the archive, and names that only have a lifetime.
#[derive(Clone)]
pub struct Fleet {
    home: Arc<dyn Store>,
    sites: Vec<Arc<Site>>,
    timeout: Duration,
}

struct Site {
    name: Box<str>,
    store: Arc<dyn Read>,
    /// The reason if the last read failed.
    failure: Mutex<Option<String>>,
}

/// The default timeout.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The replies of the sites that could be read, and the other sites.
struct Replies<T> {
    all: Vec<T>,
    missing: Option<Unreadable>,
}

impl Fleet {
    /// Creates a fleet with the first site, which also stores the hits of this process.
    #[must_use]
    pub fn new(name: &str, home: impl Store) -> Self {
        let home: Arc<dyn Store> = Arc::new(home);
        let site = Site::new(name, Arc::new(Home(Arc::clone(&home))));
        Self { home, sites: vec![Arc::new(site)], timeout: TIMEOUT }
    }

    /// Adds a site to read.
    #[must_use]
    pub fn with(mut self, name: &str, store: impl Read) -> Self {
        self.sites.push(Arc::new(Site::new(name, Arc::new(store))));
        self
    }

    /// Sets the maximum time to wait for a site. Default: 2 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the names of all sites, starting with the first.
    pub fn sites(&self) -> impl Iterator<Item = &str> {
        self.sites.iter().map(|site| &*site.name)
    }

    /// Returns the names of the sites whose last read failed, and the reasons.
    #[must_use]
    pub fn unreadable_sites(&self) -> Vec<(String, String)> {
        let failure = |site: &Arc<Site>| Some((site.name.to_string(), site.failure().clone()?));
        self.sites.iter().filter_map(failure).collect()
    }

    /// Reads all sites. Fails if none of them can be read.
    async fn read<'a, T>(
        &'a self,
        read: impl Fn(&'a dyn Read) -> StoreFuture<'a, T>,
    ) -> Result<Replies<T>, Error> {
        let replies = self.sites.iter().map(|site| site.read(read(&*site.store), self.timeout));
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for (site, reply) in self.sites.iter().zip(join_all(replies).await) {
            match reply {
                Ok(reply) => all.push(reply),
                Err(error) => failed.push((site, error)),
            }
        }
        let names: Vec<_> = failed.iter().map(|(site, _)| &*site.name).collect();
        let key = format!("site {}", names.join(", "));
        match failed.into_iter().next() {
            Some((_, error)) if all.is_empty() => Err(error),
            first => {
                let missing =
                    |error: Error| Unreadable { is_part: true, ..Unreadable::new(key, error.to_string()) };
                let missing = first.map(|(_, error)| missing(error));
                Ok(Replies { all, missing })
            }
        }
    }
}

impl Site {
    fn new(name: &str, store: Arc<dyn Read>) -> Self {
        Self { name: name.into(), store, failure: Mutex::default() }
    }

    async fn read<T>(&self, read: StoreFuture<'_, T>, limit: Duration) -> Result<T, Error> {
        let reply = timeout(limit, read).await;
        let reply = reply.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable).caused_by("timed out")));
        let failure = reply.as_ref().err().map(Error::to_string);
        let was_readable = std::mem::replace(&mut *self.failure(), failure.clone()).is_none();
        match (was_readable, failure) {
            (true, Some(error)) => {
                tracing::warn!(site = &*self.name, error, "a site of the fleet cannot be read");
            }
            (false, None) => tracing::info!(site = &*self.name, "a site of the fleet can be read again"),
            _ => {}
        }
        reply
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().expect("the lock is never poisoned")
    }
}

/// The read half of the first store.
#[derive(Debug)]
struct Home(Arc<dyn Store>);

impl AsRef<dyn Store> for Home {
    fn as_ref(&self) -> &(dyn Store + 'static) {
        &*self.0
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sites()).finish()
    }
}
