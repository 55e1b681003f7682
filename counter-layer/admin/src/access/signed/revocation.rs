//! Revocation of sessions and links that have not expired yet.
//!
//! All sessions of a token share a generation, and so do all links. The signature covers the generation, so a
//! new generation invalidates all older sessions or links without comparing clocks. Individual logouts and
//! revoked links are listed, and so are the links that have been created. The store has a document for each
//! token, and instances refresh this document every few seconds.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::document::{Document, DocumentStore};
use counter_core::internal::change_document;
use counter_core::{Error, ErrorKind, MemoryStore, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use super::link_list::{CreatedLink, LinkId, LinkList};
use crate::problem::cause;

/// A random number, replaced in order to revoke all existing sessions or links. The initial generation is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generation(u64);

/// A random session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionId(pub(crate) u64);

/// The stored revocations of a token, and the created links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Revoked {
    pub(crate) sessions: Generation,
    pub(crate) links: Generation,
    /// Logged out sessions of the current generation.
    logged_out: Vec<SessionId>,
    /// Links of the current generation.
    pub(crate) created: LinkList,
    /// The number of changes. If this decreases, the store went back to an older document.
    changes: u64,
}

/// The revocations of a token: the document in the store, and a cached copy.
pub(crate) struct Revocations {
    documents: Arc<dyn DocumentStore>,
    /// The document name.
    name: String,
    known: Mutex<Known>,
    /// Held by the request that reads the document.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    revoked: Arc<Revoked>,
    /// When we last tried to read the document.
    tried: Option<Instant>,
    is_failing: bool,
    /// Logouts that could not be written to the store.
    unwritten: Vec<SessionId>,
}

/// How often to refresh the cached copy of the document.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(5);

/// How often to refresh the document for invalid sessions or links, which might belong to a new generation of
/// another instance.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long a request waits for the document.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a change of the document may take.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of listed logouts. If this is exceeded, all sessions are revoked.
const MAX_LOGGED_OUT: usize = 500;

const LOCK_POISONED: &str = "the lock is never poisoned";

impl Generation {
    #[cfg(test)]
    pub(crate) const FIRST: Self = Self(0);

    /// Returns a new generation, or `None` if the operating system does not provide randomness.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(u64::from_le_bytes(bytes)))
    }

    pub(crate) const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl Revoked {
    pub(crate) fn is_logged_out(&self, session: SessionId) -> bool {
        self.logged_out.contains(&session)
    }

    /// Starts a new generation of sessions.
    fn end_sessions(&mut self, next: Generation) {
        self.sessions = next;
        self.logged_out.clear();
    }

    /// Lists a logout, or starts a new generation if the list is full.
    fn log_out(&mut self, session: SessionId, next: Generation) {
        if self.is_logged_out(session) {
            return;
        }
        if self.logged_out.len() < MAX_LOGGED_OUT {
            self.logged_out.push(session);
        } else {
            self.end_sessions(next);
        }
    }

    /// Starts a new generation of links.
    fn end_links(&mut self, next: Generation) {
        self.links = next;
        self.created = LinkList::default();
    }

    /// Revokes a link, or starts a new generation if too many links have been revoked.
    fn revoke_link(&mut self, link: LinkId, now: Timestamp, next: Generation) {
        if !self.created.revoke(link, now) {
            self.end_links(next);
        }
    }

    fn decode(content: &[u8], name: &str) -> Result<Self, Error> {
        if content.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(content)
            .map_err(|error| Error::new(ErrorKind::Malformed { key: name.to_owned() }).caused_by(error))
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("revocations can be serialized")
    }
}

impl Revocations {
    /// Stores revocations in this process only. They are lost when it exits.
    pub(crate) fn in_memory(name: String) -> Self {
        Self::new(Arc::new(MemoryStore::new()), name)
    }

    pub(crate) fn new(documents: Arc<dyn DocumentStore>, name: String) -> Self {
        Self { documents, name, known: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns `true` if the latest read failed, i.e. if revocations by other instances are unknown.
    pub(crate) fn is_failing(&self) -> bool {
        self.known().is_failing
    }

    /// Returns whether the revocations pass a test. Refreshes the document if they don't, to include other
    /// instances.
    pub(crate) async fn pass(&self, test: impl Fn(&Revoked) -> bool) -> bool {
        if test(&*self.read_within(REFRESH_INTERVAL).await) {
            return true;
        }
        test(&*self.read_within(RETRY_INTERVAL).await)
    }

    /// Reads the document now, or returns the cached revocations if this fails.
    pub(crate) async fn read(&self) -> Arc<Revoked> {
        self.read_within(Duration::ZERO).await
    }

    /// Logs a session out.
    ///
    /// # Errors
    /// Fails if the store can't be written. In this case, the session ends immediately on this instance, and
    /// will end on other instances when the store is available again.
    pub(crate) async fn log_out(&self, session: SessionId) -> Result<(), Error> {
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        let written = self.change(|revoked, _| revoked.log_out(session, next)).await;
        if written.is_err() {
            let known = &mut *self.known();
            Arc::make_mut(&mut known.revoked).log_out(session, next);
            if known.unwritten.len() < MAX_LOGGED_OUT {
                known.unwritten.push(session);
            }
        }
        written
    }

    /// Ends all sessions.
    ///
    /// # Errors
    /// Fails if the store can't be written. The change may or may not have been applied.
    pub(crate) async fn end_sessions(&self) -> Result<(), Error> {
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        self.change(|revoked, _| revoked.end_sessions(next)).await
    }

    /// Revokes all links.
    ///
    /// # Errors
    /// Fails if the store can't be written. The change may or may not have been applied.
    pub(crate) async fn end_links(&self) -> Result<(), Error> {
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        self.change(|revoked, _| revoked.end_links(next)).await
    }

    /// Lists a new link. Returns `false` if there are too many active links.
    ///
    /// # Errors
    /// Fails if the store can't be written. In this case, the link may or may not be listed.
    pub(crate) async fn add_link(&self, link: &CreatedLink) -> Result<bool, Error> {
        self.change(|revoked, now| revoked.created.add(link, now)).await
    }

    /// Revokes a link.
    ///
    /// # Errors
    /// Fails if the store can't be written. The change may or may not have been applied.
    pub(crate) async fn revoke_link(&self, link: LinkId) -> Result<(), Error> {
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        self.change(|revoked, now| revoked.revoke_link(link, now, next)).await
    }

    /// Returns revocations that are at most this old, or the cached revocations if the store does not
    /// respond.
    async fn read_within(&self, age: Duration) -> Arc<Revoked> {
        let (revoked, is_fresh, is_first) = {
            let known = self.known();
            let is_fresh = known.tried.is_some_and(|tried| tried.elapsed() < age);
            (Arc::clone(&known.revoked), is_fresh, known.tried.is_none())
        };
        if is_fresh {
            return revoked;
        }
        // Only one request reads the document. Concurrent requests use the cached copy, unless there is none
        // yet.
        let requested_at = Instant::now();
        let _reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            Err(_) if is_first || age.is_zero() => self.reading.lock().await,
            Err(_) => return revoked,
        };
        if self.known().tried.is_none_or(|tried| tried < requested_at) {
            let fetched = timeout(READ_TIMEOUT, self.fetch()).await;
            let late = |late| Err(Error::new(ErrorKind::Unavailable).caused_by(late));
            if let Err(error) = fetched.unwrap_or_else(late) {
                self.remember(Err(error));
            }
        }
        Arc::clone(&self.known().revoked)
    }

    /// Reads the document. If it lacks logouts of this instance, or the store lost it, this also writes the
    /// document.
    async fn fetch(&self) -> Result<(), Error> {
        let unwritten = self.known().unwritten.clone();
        let (revoked, is_lost) = self.latest(&self.documents.read(&self.name).await?)?;
        if !is_lost && unwritten.is_empty() {
            self.remember(Ok(revoked));
            return Ok(());
        }
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        self.replace(|revoked, _| unwritten.iter().for_each(|session| revoked.log_out(*session, next)))
            .await?;
        self.known().unwritten.retain(|session| !unwritten.contains(session));
        Ok(())
    }

    /// Returns the revocations in a document. If the store went back, e.g. after a restart without data, this
    /// returns the cached copy and `true` instead.
    fn latest(&self, document: &Document) -> Result<(Revoked, bool), Error> {
        let stored = Revoked::decode(&document.content, &self.name)?;
        let known = Arc::clone(&self.known().revoked);
        let is_lost = stored.changes < known.changes;
        Ok((if is_lost { Revoked::clone(&known) } else { stored }, is_lost))
    }

    /// Changes the document. Retries if other instances change it concurrently.
    ///
    /// The change receives the time of the store clock or of this process, whichever is earlier, so that a
    /// wrong clock does not remove anything.
    async fn change<T: Send>(
        &self,
        change: impl Fn(&mut Revoked, Timestamp) -> T + Send,
    ) -> Result<T, Error> {
        let changed = timeout(CHANGE_TIMEOUT, self.replace(change)).await;
        changed.unwrap_or_else(|late| Err(Error::new(ErrorKind::Unavailable).caused_by(late)))
    }

    async fn replace<T: Send>(
        &self,
        change: impl Fn(&mut Revoked, Timestamp) -> T + Send,
    ) -> Result<T, Error> {
        let replaced = change_document(&*self.documents, &self.name, move |document| {
            let (document, now) = (document?, Timestamp::now());
            let (mut revoked, _) = self.latest(&document)?;
            let outcome = change(&mut revoked, document.now.map_or(now, |store| store.min(now)));
            revoked.changes += 1;
            let content = revoked.encode();
            Ok(((revoked, outcome), Some(content)))
        });
        let (revoked, outcome) = replaced.await?.ok_or_else(|| {
            Error::new(ErrorKind::Unavailable).caused_by("too many concurrent changes by other instances")
        })?;
        self.remember(Ok(revoked));
        Ok(outcome)
    }

    fn remember(&self, read: Result<Revoked, Error>) {
        let new_failure = {
            let known = &mut *self.known();
            known.tried = Some(Instant::now());
            let was_failing = std::mem::replace(&mut known.is_failing, read.is_err());
            match read {
                Ok(revoked) => {
                    known.revoked = Arc::new(revoked);
                    None
                }
                Err(error) => Some(error).filter(|_| !was_failing),
            }
        };
        if let Some(error) = new_failure {
            tracing::warn!(%error, cause = cause(&error), "cannot read revoked sessions and links; using the cached state");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect(LOCK_POISONED)
    }
}

#[cfg(test)]
mod tests {
    use super::super::link_list::MAX_LINKS;
    use super::super::link_list::tests::sample;
    use counter_core::stores::StoreFuture;

    use super::*;

    #[test]
    fn a_full_logout_list_ends_all_sessions() {
        let (mut revoked, next) = (Revoked::default(), Generation(7));
        for id in 0..MAX_LOGGED_OUT as u64 {
            revoked.log_out(SessionId(id), next);
            revoked.log_out(SessionId(id), next);
        }
        assert_eq!((revoked.sessions, revoked.logged_out.len()), (Generation::FIRST, MAX_LOGGED_OUT));
        revoked.log_out(SessionId(u64::MAX), next);
        assert_eq!((revoked.sessions, revoked.logged_out.len()), (next, 0));
    }

    #[tokio::test]
    async fn a_clock_that_is_ahead_does_not_remove_links() {
        #[derive(Debug)]
        struct Late(MemoryStore);
        impl DocumentStore for Late {
            fn read<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Document> {
                Box::pin(async move {
                    let mut document = DocumentStore::read(&self.0, name).await?;
                    document.now = Some(Timestamp::from_unix(5));
                    Ok(document)
                })
            }
            fn read_newer<'a>(&'a self, name: &'a str, _: u64) -> StoreFuture<'a, Document> {
                self.read(name)
            }
            fn replace<'a>(
                &'a self,
                name: &'a str,
                version: u64,
                content: &'a [u8],
            ) -> StoreFuture<'a, Option<u64>> {
                DocumentStore::replace(&self.0, name, version, content)
            }
        }
        // The links have expired by the clock of this process, but not by the clock of the store.
        let revocations = Revocations::new(Arc::new(Late(MemoryStore::new())), "test".to_owned());
        for id in 0..MAX_LINKS {
            assert!(revocations.add_link(&sample(id, 20)).await.expect("memory"));
        }
        assert!(!revocations.add_link(&sample(MAX_LINKS, 20)).await.expect("memory"));
    }

    #[tokio::test]
    async fn revocations_are_restored_if_the_store_went_back() {
        let documents: Arc<dyn DocumentStore> = Arc::new(MemoryStore::new());
        let [one, other] = [0, 1].map(|_| Revocations::new(Arc::clone(&documents), "test".to_owned()));
        one.log_out(SessionId(7)).await.expect("memory");
        let backup = documents.read("test").await.expect("memory");
        one.end_sessions().await.expect("memory");
        let seen = documents.read("test").await.expect("memory");
        documents
            .replace("test", seen.version, &backup.content)
            .await
            .expect("memory")
            .expect("nothing else writes");
        let revoked = one.read().await;
        assert_ne!(revoked.sessions, Generation::FIRST);
        assert_eq!(other.read().await, revoked);
    }

    #[tokio::test]
    async fn instances_share_revocations_via_the_store() {
        let store = MemoryStore::new();
        let [one, other] = [0, 1].map(|_| Revocations::new(Arc::new(store.clone()), "test".to_owned()));
        let session = SessionId(7);
        one.log_out(session).await.expect("memory");
        assert!(other.read().await.is_logged_out(session));
        let link = sample(3, u64::MAX);
        assert!(one.add_link(&link).await.expect("memory"));
        other.revoke_link(link.id).await.expect("memory");
        assert!(one.read().await.created.is_revoked(link.id));
        other.end_links().await.expect("memory");
        one.end_sessions().await.expect("memory");
        assert_eq!(one.read().await, other.read().await);
        assert_ne!(one.read().await.sessions, Generation::FIRST);
    }
}
