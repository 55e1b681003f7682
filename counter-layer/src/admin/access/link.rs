//! Links that show one view of the dashboard to those who have no access.
//!
//! A link says what it shows and when it ends, and is signed with the token as a session is: every instance knows it, none
//! stores it, and it ends by its own word or with the token. It opens the page that it names, with the style of that page,
//! and nothing else. Its signature is no guess of the token, so it has no budget; who has a link could try
//! tokens against it at leisure, which a long random token stands.

use counter_core::Timestamp;
use hmac::{Hmac, Mac};
use http::Method;
use http::request::Parts;
use sha2::Sha256;

use super::session::{read_signature, write_signature};

/// Signs links with one token, and knows them again.
#[derive(Clone)]
pub(crate) struct Links(Hmac<Sha256>);

/// A link whose signature may be anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    path: &'a str,
    /// The signed part of the query.
    query: &'a str,
    signature: [u8; 32],
}

/// The end of the paths that links lead to.
pub(crate) const SHARED: &str = "/shared";
/// The end of the path of their style, behind that.
pub(crate) const STYLE: &str = "/style.css";

/// A beginning that nothing else signed with the token has.
const LABEL: &[u8] = b"counter-layer admin link 1:";

const UNTIL: &str = "&until=";
const SIGNATURE: &str = "&signature=";

impl Links {
    pub(crate) fn new(token: &str) -> Self {
        let key = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("a key of any length will do");
        Self(key.chain_update(LABEL))
    }

    /// Returns the query of a link to this path below the router, which shows this query until then.
    pub(crate) fn sign(&self, path: &str, query: &str, until: Timestamp) -> String {
        let query = format!("{query}{UNTIL}{until}");
        let signature = write_signature(self.over(path, &query));
        format!("{query}{SIGNATURE}{signature}")
    }

    /// Returns `true` if the link was signed with this token.
    pub(crate) fn signed(&self, link: &Link<'_>) -> bool {
        // It compares in constant time.
        self.over(link.path, link.query).verify_slice(&link.signature).is_ok()
    }

    fn over(&self, path: &str, query: &str) -> Hmac<Sha256> {
        // A path has no question mark.
        self.0.clone().chain_update(path).chain_update("?").chain_update(query)
    }
}

impl<'a> Link<'a> {
    /// Reads the link that a request follows, or that its style comes with, if it is not over.
    pub(crate) fn read(parts: &'a Parts, now: Timestamp) -> Option<Self> {
        let (path, query) = (parts.uri.path(), parts.uri.query()?);
        let (query, signature) = query.rsplit_once(SIGNATURE)?;
        let (_, until) = query.rsplit_once(UNTIL)?;
        let is_number = !until.is_empty() && until.bytes().all(|byte| byte.is_ascii_digit());
        let until = Timestamp::from_unix(until.parse().ok().filter(|_| is_number)?);
        let link = Self {
            path: path.strip_suffix(STYLE).unwrap_or(path),
            query,
            signature: read_signature(signature)?,
        };
        Some(link).filter(|_| now < until)
    }
}

/// Returns `true` if a request is for a page that takes a link, or for the style of one.
pub(crate) fn takes_one(parts: &Parts) -> bool {
    let path = parts.uri.path();
    path.strip_suffix(STYLE).unwrap_or(path).ends_with(SHARED)
}

/// Returns `true` if a request only reads, as one does that follows a link.
pub(crate) fn reads(parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const NOON: Timestamp = Timestamp::from_unix(1_795_262_400);

    fn opens(token: &str, address: &str, now: Timestamp) -> bool {
        let (parts, ()) = Request::get(address).body(()).expect("an address").into_parts();
        Link::read(&parts, now).is_some_and(|link| Links::new(token).signed(&link))
    }

    fn link() -> String {
        format!("/counter/shared?{}", Links::new("a").sign("/counter/shared", "counter=%2F&span=7", NOON))
    }

    #[test]
    fn a_link_opens_until_its_end_and_with_its_token() {
        let link = link();
        let (page, query) = link.split_once('?').expect("a query");
        let style = format!("{page}/style.css?{query}");
        for (token, address, now, is_open) in [
            ("a", &link, NOON.minus(1), true),
            ("a", &style, NOON.minus(1), true),
            ("a", &link, NOON, false),
            ("a", &style, NOON, false),
            ("b", &link, NOON.minus(1), false),
            ("", &link, NOON.minus(1), false),
        ] {
            assert_eq!(opens(token, address, now), is_open, "{token}: {address} at {now}");
        }
    }

    #[test]
    fn no_other_address_is_a_link() {
        let link = link();
        let now = NOON.minus(1);
        let known = |address: &str| {
            let (parts, ()) = Request::get(address).body(()).expect("an address").into_parts();
            takes_one(&parts) && opens("a", address, now)
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
            link.replace("%2F", "/"),
        ] {
            assert!(!known(&changed), "{changed}");
        }
        let session =
            super::super::session::Sessions::new("a").begin(now, std::time::Duration::from_secs(60));
        let session = session.expect("there is randomness");
        let signature = session.rsplit('.').next().expect("a signature");
        assert!(!known(&format!("{page}?counter=%2F&until=1795262400&signature={signature}")));
    }
}
