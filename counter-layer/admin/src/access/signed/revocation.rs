//! Revocation of sessions and links that have not expired yet.
//!
//! All sessions of a token share a generation, and so do all links. The signature covers the generation, so a
//! new generation invalidates all older sessions or links without comparing clocks. Individual logouts and
//! revoked links are listed, and so are the links that have been created. The store has a document for each
//! token, and instances refresh this document every few seconds.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_alert::internal::DocumentVersion;
use counter_core::document::{Document, DocumentStore};
use counter_core::internal::{Errands, change_document};
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
    version: DocumentVersion<1>,
    pub(crate) sessions: Generation,
    pub(crate) links: Generation,
    /// Logged out sessions of the current generation.
    logged_out: Vec<SessionId>,
    /// Links of the current generation.
    pub(crate) created: LinkList,
    /// The previous generations of sessions and of links, oldest first. They tell whether the store went back
    /// to an older document, e.g. after a restart without data. A count of changes could not: new changes of
    /// the older document would catch up with it.
    ended_sessions: Vec<Generation>,
    ended_links: Vec<Generation>,
}

/// The revocations of a token: the document in the store, and a cached copy.
pub(crate) struct Revocations {
    documents: Arc<dyn DocumentStore>,
    errands: Errands,
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
    /// Logouts that could not be written to the store. While there are any, there is an errand to write them.
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

/// Maximum number of previous generations to list. An instance that has missed more than this ends the current
/// generation as well, because it could be an older one.
const MAX_ENDED: usize = 100;

const LOCK_POISONED: &str = "the lock is never poisoned";

impl Generation {
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
        push_ended(&mut self.ended_sessions, std::mem::replace(&mut self.sessions, next));
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
        push_ended(&mut self.ended_links, std::mem::replace(&mut self.links, next));
        self.created = LinkList::default();
    }

    /// Revokes a link, or starts a new generation if too many links have been revoked. Returns `false` if the
    /// link is not listed.
    fn revoke_link(&mut self, link: LinkId, now: Timestamp, next: Generation) -> bool {
        let is_listed = self.created.contains(link);
        if !self.created.revoke(link, now) {
            self.end_links(next);
        }
        is_listed
    }

    /// Adds what only `known` contains, in order not to lose it if the store went back to an older document.
    /// Returns whether there was anything. If it is unclear which generation is the newer one, this starts
    /// another one.
    fn merge(&mut self, known: &Self, now: Timestamp, next: Generation) -> bool {
        let sessions =
            Order::of((known.sessions, &known.ended_sessions), (self.sessions, &self.ended_sessions));
        match sessions {
            Order::Newer => {
                self.sessions = known.sessions;
                (self.logged_out, self.ended_sessions) =
                    (known.logged_out.clone(), known.ended_sessions.clone());
            }
            Order::Unknown => {
                self.end_sessions(next);
                // Other instances that know this generation should not end it again.
                push_ended(&mut self.ended_sessions, known.sessions);
            }
            Order::Same | Order::Older => {}
        }
        let lost = known
            .logged_out
            .iter()
            .filter(|session| sessions == Order::Same && !self.is_logged_out(**session));
        let lost: Vec<_> = lost.copied().collect();
        lost.iter().for_each(|session| self.log_out(*session, next));
        let links = Order::of((known.links, &known.ended_links), (self.links, &self.ended_links));
        let mut has_lost_links = false;
        match links {
            Order::Newer => {
                self.links = known.links;
                (self.created, self.ended_links) = (known.created.clone(), known.ended_links.clone());
            }
            Order::Unknown => {
                self.end_links(next);
                push_ended(&mut self.ended_links, known.links);
            }
            Order::Same => {
                let (has_any, fits) = self.created.merge(&known.created, now);
                if !fits {
                    self.end_links(next);
                }
                has_lost_links = has_any;
            }
            Order::Older => {}
        }
        let is_newer = |order| matches!(order, Order::Newer | Order::Unknown);
        is_newer(sessions) || is_newer(links) || has_lost_links || !lost.is_empty()
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

/// How a generation relates to the one in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Same,
    Older,
    Newer,
    /// Neither is known to have replaced the other.
    Unknown,
}

impl Order {
    /// Compares a generation with the one in the store, given the generations that each of them replaced.
    fn of(
        (known, ended): (Generation, &[Generation]),
        (stored, stored_ended): (Generation, &[Generation]),
    ) -> Self {
        if known == stored {
            Self::Same
        } else if known == Generation::FIRST || stored_ended.contains(&known) {
            Self::Older
        } else if stored == Generation::FIRST || ended.contains(&stored) {
            Self::Newer
        } else {
            Self::Unknown
        }
    }
}

fn push_ended(ended: &mut Vec<Generation>, generation: Generation) {
    ended.push(generation);
    if ended.len() > MAX_ENDED {
        ended.remove(0);
    }
}

impl Revocations {
    /// Stores revocations in this process only. They are lost when it exits.
    pub(crate) fn in_memory(name: String) -> Arc<Self> {
        Self::new(Arc::new(MemoryStore::new()), Errands::default(), name)
    }

    /// Stores revocations in `documents`, later via `errands` if this fails.
    pub(crate) fn new(documents: Arc<dyn DocumentStore>, errands: Errands, name: String) -> Arc<Self> {
        let (known, reading) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { documents, errands, name, known, reading })
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
    pub(crate) async fn log_out(self: &Arc<Self>, session: SessionId) -> Result<(), Error> {
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        let written = self.change(|revoked, _| revoked.log_out(session, next)).await;
        if written.is_err() {
            let known = &mut *self.known();
            Arc::make_mut(&mut known.revoked).log_out(session, next);
            if known.unwritten.is_empty() {
                let revocations = Arc::clone(self);
                self.errands.add(move || Box::pin(Arc::clone(&revocations).write()));
            }
            if known.unwritten.len() < MAX_LOGGED_OUT {
                known.unwritten.push(session);
            }
        }
        written
    }

    /// Writes the logouts that could not be written.
    async fn write(self: Arc<Self>) -> Result<(), Error> {
        while !self.known().unwritten.is_empty() {
            let _reading = self.reading.lock().await;
            let late = |late| Err(Error::new(ErrorKind::Unavailable).caused_by(late));
            timeout(CHANGE_TIMEOUT, self.fetch()).await.unwrap_or_else(late)?;
        }
        Ok(())
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

    /// Revokes a link. Returns `false` if the link is not listed.
    ///
    /// # Errors
    /// Fails if the store can't be written. The change may or may not have been applied.
    pub(crate) async fn revoke_link(&self, link: LinkId) -> Result<bool, Error> {
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
        let (revoked, _, has_lost) = self.latest(&self.documents.read(&self.name).await?)?;
        if !has_lost && unwritten.is_empty() {
            self.remember(Ok(revoked));
            return Ok(());
        }
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        self.replace(|revoked, _| unwritten.iter().for_each(|session| revoked.log_out(*session, next)))
            .await?;
        self.known().unwritten.retain(|session| !unwritten.contains(session));
        Ok(())
    }

    /// Returns the revocations in a document, and the time of the store clock or of this process, whichever is
    /// earlier, so that a wrong clock does not remove anything. If the store went back, e.g. after a restart
    /// without data, this adds what it lost, and also returns `true`.
    fn latest(&self, document: &Document) -> Result<(Revoked, Timestamp, bool), Error> {
        let now = Timestamp::now();
        let now = document.now.map_or(now, |store| store.min(now));
        let Some(next) = Generation::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        let mut revoked = Revoked::decode(&document.content, &self.name)?;
        let known = Arc::clone(&self.known().revoked);
        let has_lost = revoked.merge(&known, now, next);
        Ok((revoked, now, has_lost))
    }

    /// Changes the document. Retries if other instances change it concurrently.
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
            let (mut revoked, now, _) = self.latest(&document?)?;
            let outcome = change(&mut revoked, now);
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

    fn revocations(documents: Arc<dyn DocumentStore>) -> Arc<Revocations> {
        Revocations::new(documents, Errands::default(), "test".to_owned())
    }

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
        let revocations = revocations(Arc::new(Late(MemoryStore::new())));
        for id in 0..MAX_LINKS {
            assert!(revocations.add_link(&sample(id, 20)).await.expect("memory"));
        }
        assert!(!revocations.add_link(&sample(MAX_LINKS, 20)).await.expect("memory"));
    }

    #[tokio::test]
    async fn revocations_are_restored_if_the_store_went_back() {
        let documents: Arc<dyn DocumentStore> = Arc::new(MemoryStore::new());
        let [one, other] = [0, 1].map(|_| revocations(Arc::clone(&documents)));
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
    async fn new_revocations_do_not_hide_that_the_store_went_back() {
        let documents: Arc<dyn DocumentStore> = Arc::new(MemoryStore::new());
        let [one, other] =
            [0, 1].map(|_| Revocations::new(Arc::clone(&documents), Errands::default(), "test".to_owned()));
        let links = [1, 2, 3].map(|id| sample(id, u64::MAX));
        assert!(one.add_link(&links[0]).await.expect("memory"));
        one.log_out(SessionId(1)).await.expect("memory");
        let backup = documents.read("test").await.expect("memory");
        assert!(one.revoke_link(links[0].id).await.expect("memory"));
        assert!(one.add_link(&links[1]).await.expect("memory"));
        one.log_out(SessionId(2)).await.expect("memory");
        let seen = documents.read("test").await.expect("memory");
        let restored = documents.replace("test", seen.version, &backup.content).await.expect("memory");
        restored.expect("nothing else writes");
        // As many changes as have been lost, and more, by an instance that does not know about them.
        for session in 3..9 {
            other.log_out(SessionId(session)).await.expect("memory");
        }
        assert!(other.add_link(&links[2]).await.expect("memory"));
        let revoked = one.read().await;
        assert!((1..9).all(|session| revoked.is_logged_out(SessionId(session))), "{revoked:?}");
        assert!(revoked.created.is_revoked(links[0].id), "{revoked:?}");
        assert_eq!(revoked.created.active(Timestamp::MIN).count(), 2);
        assert_eq!(revoked.sessions, Generation::FIRST);
        assert_eq!(other.read().await, revoked);
    }

    #[tokio::test]
    async fn ended_sessions_stay_ended_if_the_store_went_back() {
        let documents: Arc<dyn DocumentStore> = Arc::new(MemoryStore::new());
        let [one, other] =
            [0, 1].map(|_| Revocations::new(Arc::clone(&documents), Errands::default(), "test".to_owned()));
        let backup = documents.read("test").await.expect("memory");
        one.end_sessions().await.expect("memory");
        one.end_links().await.expect("memory");
        let ended = one.read().await;
        let seen = documents.read("test").await.expect("memory");
        let restored = documents.replace("test", seen.version, &backup.content).await.expect("memory");
        restored.expect("nothing else writes");
        other.end_sessions().await.expect("memory");
        let others = other.read().await;
        let revoked = one.read().await;
        assert!(
            [Generation::FIRST, ended.sessions, others.sessions].iter().all(|old| *old != revoked.sessions)
        );
        assert_eq!(revoked.links, ended.links);
        assert_eq!(other.read().await, revoked);
        assert_eq!(one.read().await, revoked, "and then they agree");
    }

    #[tokio::test]
    async fn a_newer_document_is_not_replaced() {
        let documents: Arc<dyn DocumentStore> = Arc::new(MemoryStore::new());
        let newer = br#"{"version":2,"more":1}"#;
        documents.replace("test", 0, newer).await.expect("memory").expect("there is none");
        let revocations = Revocations::new(Arc::clone(&documents), Errands::default(), "test".to_owned());
        let error = revocations.log_out(SessionId(1)).await.expect_err("it is newer");
        assert!(format!("{error:?}").contains("the document is newer than this program"), "{error:?}");
        revocations.read().await;
        assert!(revocations.is_failing());
        assert_eq!(documents.read("test").await.expect("memory").content, newer);
    }

    #[tokio::test]
    async fn a_link_that_is_not_listed_is_not_revoked() {
        let revocations = Revocations::in_memory("test".to_owned());
        let link = sample(1, u64::MAX);
        assert!(!revocations.revoke_link(link.id).await.expect("memory"));
        assert!(revocations.add_link(&link).await.expect("memory"));
        for _ in 0..2 {
            assert!(revocations.revoke_link(link.id).await.expect("memory"), "it can be repeated");
        }
    }

    #[tokio::test]
    async fn instances_share_revocations_via_the_store() {
        let store = MemoryStore::new();
        let [one, other] = [0, 1].map(|_| revocations(Arc::new(store.clone())));
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
