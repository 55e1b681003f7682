use std::sync::Arc;
use std::time::Duration;

use counter_core::document::DocumentStore;
use counter_core::internal::Errands;
use counter_core::{Error, ErrorKind, Timestamp};
use hmac::Mac;
use subtle::ConstantTimeEq;
use tokio::time::sleep;

use super::key::TokenKey;
use super::link::{Link, Links};
use super::link_list::{CreatedLink, LinkId};
use super::revocation::{REFRESH_INTERVAL, Revocations};
use super::session::{Claim, Sessions};

/// A token, with the sessions and links that are signed with the derived key.
pub(crate) struct Secrets {
    token: String,
    sessions: Sessions,
    links: Links,
    revocations: Arc<Revocations>,
}

/// The session of a request.
#[derive(Clone)]
pub(crate) struct OpenSession {
    pub(crate) secrets: Arc<Secrets>,
    cookie: String,
    end: Timestamp,
}

/// A link that is active, with the address relative to the router.
pub(crate) struct ActiveLink {
    pub(crate) address: String,
    pub(crate) link: CreatedLink,
}

/// The minimum number of characters in a token.
pub(crate) const MIN_TOKEN_CHARS: usize = 16;

/// Prefix of the document name. The rest is a token id.
const DOCUMENT: &str = "admin-access:";

/// The message to sign in order to get the token id.
const ID: &[u8] = b"counter-layer admin document 1:";

impl Secrets {
    pub(crate) fn new(token: String) -> Self {
        let key = TokenKey::derive(&token);
        let id = key.sign(ID).finalize().into_bytes();
        let id: String = id.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self {
            token,
            sessions: Sessions::new(key.clone()),
            links: Links::new(key),
            revocations: Revocations::in_memory(format!("{DOCUMENT}{id}")),
        }
    }

    /// Returns a copy that stores revocations in `documents`, so that all instances share them. If this fails, `errands`
    /// does it later.
    pub(crate) fn stored_in(&self, documents: Arc<dyn DocumentStore>, errands: Errands) -> Self {
        Self {
            token: self.token.clone(),
            sessions: self.sessions.clone(),
            links: self.links.clone(),
            revocations: Revocations::new(documents, errands, self.revocations.name().to_owned()),
        }
    }

    /// Compares a token in constant time. Only the length can leak.
    pub(crate) fn is(&self, token: &str) -> bool {
        token.as_bytes().ct_eq(self.token.as_bytes()).into()
    }

    /// Starts a session, or returns `None` if the operating system does not provide randomness.
    pub(crate) async fn start_session(&self, lifetime: Duration) -> Option<String> {
        let generation = self.revocations.read().await.sessions;
        self.sessions.start(Timestamp::now(), lifetime, generation)
    }

    /// Returns `true` if the session was signed with this token and has not been revoked.
    pub(crate) async fn accepts(&self, session: &Claim<'_>) -> bool {
        let is_valid = |generation| self.sessions.signed(session, generation);
        self.revocations
            .pass(|revoked| is_valid(revoked.sessions) && !revoked.is_logged_out(session.id()))
            .await
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Fails if the store can't be written. In this case, the session only ends on this instance.
    pub(crate) async fn log_out(&self, session: &Claim<'_>) -> Result<(), Error> {
        self.revocations.log_out(session.id()).await
    }

    /// Ends all sessions.
    ///
    /// # Errors
    /// Fails if the store can't be written.
    pub(crate) async fn end_sessions(&self) -> Result<(), Error> {
        self.revocations.end_sessions().await
    }

    /// Creates a link to this path and query. Returns `None` if there are too many active links.
    ///
    /// # Errors
    /// Fails if the store can't be written.
    pub(crate) async fn create_link(
        &self,
        path: &str,
        query: &str,
        lifetime: Duration,
    ) -> Result<Option<LinkId>, Error> {
        let Some(id) = LinkId::random() else { return Err(Error::new(ErrorKind::Unavailable)) };
        let created = Timestamp::now();
        let link = CreatedLink {
            id,
            path: path.to_owned(),
            query: query.to_owned(),
            created: created.as_unix(),
            until: created.plus(lifetime.as_secs()).as_unix(),
        };
        Ok(self.revocations.add_link(&link).await?.then_some(id))
    }

    /// Returns the active links, newest first.
    pub(crate) async fn active_links(&self, now: Timestamp) -> Vec<ActiveLink> {
        let revoked = self.revocations.read().await;
        let active = revoked.created.active(now).cloned().map(|link| {
            let until = Timestamp::from_unix(link.until);
            let query = self.links.sign(&link.path, &link.query, link.id, until, revoked.links);
            ActiveLink { address: format!("{}?{query}", link.path), link }
        });
        active.collect()
    }

    /// Returns `true` if the link was signed with this token and has not been revoked.
    pub(crate) async fn opens(&self, link: &Link<'_>) -> bool {
        let is_valid = |generation| self.links.signed(link, generation);
        self.revocations
            .pass(|revoked| is_valid(revoked.links) && !revoked.created.is_revoked(link.id()))
            .await
    }

    /// Revokes a link. Returns `false` if the link is not listed.
    ///
    /// # Errors
    /// Fails if the store can't be written.
    pub(crate) async fn revoke_link(&self, link: LinkId) -> Result<bool, Error> {
        self.revocations.revoke_link(link).await
    }

    /// Revokes all links.
    ///
    /// # Errors
    /// Fails if the store can't be written.
    pub(crate) async fn end_links(&self) -> Result<(), Error> {
        self.revocations.end_links().await
    }

    /// Returns `true` if the latest read of the store failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.revocations.is_failing()
    }
}

impl OpenSession {
    pub(crate) fn new(secrets: Arc<Secrets>, cookie: &str, claim: &Claim<'_>) -> Self {
        Self { secrets, cookie: cookie.to_owned(), end: claim.end() }
    }

    /// Completes when the session expires or is revoked.
    pub(crate) async fn ended(self) {
        let left = Duration::from_secs(self.end.as_unix().saturating_sub(Timestamp::now().as_unix()));
        tokio::select! {
            () = sleep(left) => {}
            () = self.revoked() => {}
        }
    }

    async fn revoked(&self) {
        while let Some(claim) = Claim::read(&self.cookie, Timestamp::now()) {
            if !self.secrets.accepts(&claim).await {
                break;
            }
            sleep(REFRESH_INTERVAL).await;
        }
    }
}
