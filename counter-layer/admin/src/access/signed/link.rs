//! Links that share a view of the dashboard with clients that don't have access.
//!
//! A link contains the view, a random id and the expiry, and is signed with the token key, so all instances
//! accept it, even if the store is unavailable. The signature also covers the generation, so we can
//! [revoke](super::revocation) all links, and single links by id. A link only opens the given page.

use counter_core::Timestamp;
use hmac::{Hmac, Mac};
use http::Method;
use http::request::Parts;
use sha2::Sha256;

use super::key::TokenKey;
use super::link_list::LinkId;
use super::revocation::Generation;
use super::session::{read_signature, write_signature};

/// Signs and verifies links with the token key.
#[derive(Clone)]
pub(crate) struct Links(TokenKey);

/// A link whose signature has not been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    path: &'a str,
    /// The signed part of the query.
    query: &'a str,
    id: LinkId,
    signature: [u8; 32],
}

/// The suffix of a shared path.
pub(crate) const SHARED: &str = "/shared";
/// The suffix of the path to create links to a page.
pub(crate) const SHARE: &str = "/share";
/// The path to revoke a link.
pub(crate) const REVOKE_LINK: &str = "/share/revoke";

/// A prefix that is not used for other signatures.
const LABEL: &[u8] = b"counter-layer admin link 1:";

const ID_PARAMETER: &str = "&link=";
const UNTIL_PARAMETER: &str = "&until=";
const SIGNATURE_PARAMETER: &str = "&signature=";

impl Links {
    pub(crate) const fn new(key: TokenKey) -> Self {
        Self(key)
    }

    /// Returns the query of a link to this path and query, which will be valid until `until`.
    pub(crate) fn sign(
        &self,
        path: &str,
        query: &str,
        id: LinkId,
        until: Timestamp,
        generation: Generation,
    ) -> String {
        let query = format!("{query}{ID_PARAMETER}{id}{UNTIL_PARAMETER}{until}");
        let signature = write_signature(self.hmac(path, &query, generation));
        format!("{query}{SIGNATURE_PARAMETER}{signature}")
    }

    /// Returns `true` if the link was signed with this key and generation.
    pub(crate) fn signed(&self, link: &Link<'_>, generation: Generation) -> bool {
        // Compares in constant time.
        self.hmac(link.path, link.query, generation).verify_slice(&link.signature).is_ok()
    }

    fn hmac(&self, path: &str, query: &str, generation: Generation) -> Hmac<Sha256> {
        // This is unambiguous because a path can't contain a question mark.
        self.0
            .sign(LABEL)
            .chain_update(generation.to_bytes())
            .chain_update(path)
            .chain_update("?")
            .chain_update(query)
    }
}

impl<'a> Link<'a> {
    /// Parses the link of a request. Returns `None` if the link has expired.
    pub(crate) fn read(parts: &'a Parts, now: Timestamp) -> Option<Self> {
        let (query, signature) = parts.uri.query()?.rsplit_once(SIGNATURE_PARAMETER)?;
        let (view, until) = query.rsplit_once(UNTIL_PARAMETER)?;
        let (_, id) = view.rsplit_once(ID_PARAMETER)?;
        let is_number = !until.is_empty() && until.bytes().all(|byte| byte.is_ascii_digit());
        let until = Timestamp::from_unix(until.parse().ok().filter(|_| is_number)?);
        let link = Self {
            path: parts.uri.path(),
            query,
            id: LinkId::parse(id)?,
            signature: read_signature(signature)?,
        };
        Some(link).filter(|_| now < until)
    }

    pub(crate) const fn id(&self) -> LinkId {
        self.id
    }
}

/// Returns `true` if the path is for a shared page.
pub(crate) fn is_link_path(parts: &Parts) -> bool {
    parts.uri.path().ends_with(SHARED)
}

/// Returns `true` if the request creates or revokes a link.
pub(crate) fn is_change(parts: &Parts) -> bool {
    let path = parts.uri.path();
    let is_share = path.strip_prefix("/counter").unwrap_or(path) == SHARE;
    parts.method == Method::POST && (is_share || path == REVOKE_LINK)
}

/// Returns `true` for a read-only method. Links only allow read-only methods.
pub(crate) fn is_read_only(parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const NOON: Timestamp = Timestamp::from_unix(1_795_262_400);

    const FIRST: Generation = Generation::FIRST;

    const ID: &str = "000000000000abcd";

    fn links(key: u8) -> Links {
        Links::new(TokenKey::from_bytes(&[key; 32]))
    }

    fn opens(key: u8, address: &str, now: Timestamp) -> bool {
        let (parts, ()) = Request::get(address).body(()).expect("an address").into_parts();
        Link::read(&parts, now).is_some_and(|link| links(key).signed(&link, FIRST))
    }

    fn link() -> String {
        let id = LinkId::parse(ID).expect("an id");
        let signed = links(1).sign("/counter/shared", "counter=%2F&span=7", id, NOON, FIRST);
        format!("/counter/shared?{signed}")
    }

    #[test]
    fn a_link_is_valid_with_the_same_key_until_it_expires() {
        let link = link();
        for (key, now, is_open) in [(1, NOON.minus(1), true), (1, NOON, false), (2, NOON.minus(1), false)] {
            assert_eq!(opens(key, &link, now), is_open, "{key}: {link} at {now}");
        }
    }

    #[test]
    fn links_of_earlier_generations_are_invalid() {
        let (parts, ()) = Request::get(link()).body(()).expect("an address").into_parts();
        let link = Link::read(&parts, NOON.minus(1)).expect("a link");
        let next = Generation::random().expect("there is randomness");
        assert!(links(1).signed(&link, FIRST) && !links(1).signed(&link, next));
    }

    #[test]
    fn modified_links_are_rejected() {
        let link = link();
        let now = NOON.minus(1);
        let known = |address: &str| {
            let (parts, ()) = Request::get(address).body(()).expect("an address").into_parts();
            is_link_path(&parts) && opens(1, address, now)
        };
        assert!(known(&link));
        for place in 1..link.len() {
            for other in ['0', 'f', '&', '=', '/', '?', 'F', '+'] {
                let mut changed: Vec<_> = link.chars().collect();
                if std::mem::replace(&mut changed[place], other) != other {
                    let changed: String = changed.into_iter().collect();
                    assert!(!known(&changed), "{changed}");
                }
            }
        }
        let (page, query) = link.split_once('?').expect("a query");
        for changed in [
            page.to_owned(),
            format!("/shared?{query}"),
            format!("/counter?{query}"),
            format!("/counter/shared/parts?{query}"),
            format!("{page}?counter=hits&{query}"),
            format!("{page}?{query}&counter=hits"),
            format!("{page}?{query}&until=9999999999"),
            format!("{link}0"),
            link.replace("until=1795262400", "until=9999999999"),
            link.replace("&until=1795262400", ""),
            link.replace(&format!("&link={ID}"), ""),
            link.replace(ID, "000000000000abce"),
            link.replace("%2F", "/"),
        ] {
            assert!(!known(&changed), "{changed}");
        }
        let sessions = super::super::session::Sessions::new(TokenKey::from_bytes(&[1; 32]));
        let session =
            sessions.start(now, std::time::Duration::from_secs(60), FIRST).expect("there is randomness");
        let signature = session.rsplit('.').next().expect("a signature");
        assert!(!known(&format!("{page}?counter=%2F&link={ID}&until=1795262400&signature={signature}")));
    }
}
