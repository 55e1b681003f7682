//! The links that have been created, and the links that have been revoked.

use std::fmt;

use counter_core::Timestamp;
use serde::{Deserialize, Serialize};

/// A random link id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkId(u64);

/// A link that has been created, with times in Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CreatedLink {
    pub(crate) id: LinkId,
    /// The path of the shared page, relative to the router.
    pub(crate) path: String,
    /// The query of the view, without id, expiry and signature.
    pub(crate) query: String,
    pub(crate) created: u64,
    pub(crate) until: u64,
}

/// The links of a generation. Expired links are only removed when a list is full.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkList {
    /// Links that have not been revoked, oldest first.
    links: Vec<CreatedLink>,
    /// Revoked links, with the expiry.
    revoked: Vec<(LinkId, u64)>,
}

/// Maximum number of active links.
pub(crate) const MAX_LINKS: usize = 100;

/// Maximum number of revoked links.
const MAX_REVOKED: usize = 500;

/// How long a revoked link is listed after the expiry, in seconds. Otherwise, an instance with a clock that is
/// late would accept the link again.
const CLOCK_TOLERANCE: u64 = 30 * 86_400;

impl LinkId {
    /// Returns a new id, or `None` if the operating system does not provide randomness.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(u64::from_le_bytes(bytes)))
    }

    /// Parses an id. Only the canonical form is accepted.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = Self(u64::from_str_radix(text, 16).ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl LinkList {
    pub(crate) fn is_revoked(&self, link: LinkId) -> bool {
        self.revoked.iter().any(|(revoked, _)| *revoked == link)
    }

    /// Returns the links that are valid at this time, newest first.
    pub(crate) fn active(&self, now: Timestamp) -> impl Iterator<Item = &CreatedLink> {
        self.links.iter().rev().filter(move |link| now.as_unix() < link.until)
    }

    /// Adds a link, or returns `false` if there are too many active links.
    pub(crate) fn add(&mut self, link: &CreatedLink, now: Timestamp) -> bool {
        if self.links.len() >= MAX_LINKS {
            self.links.retain(|link| now.as_unix() < link.until);
        }
        let fits = self.links.len() < MAX_LINKS;
        if fits {
            self.links.push(link.clone());
        }
        fits
    }

    /// Returns `true` if the link is listed, either as created or as revoked.
    pub(crate) fn contains(&self, link: LinkId) -> bool {
        self.is_revoked(link) || self.links.iter().any(|other| other.id == link)
    }

    /// Revokes a link, or returns `false` if too many links have been revoked. Does nothing if the link is not
    /// listed.
    pub(crate) fn revoke(&mut self, link: LinkId, now: Timestamp) -> bool {
        let Some(place) = self.links.iter().position(|other| other.id == link) else { return true };
        let until = self.links.remove(place).until;
        self.push_revoked(link, until, now)
    }

    fn push_revoked(&mut self, link: LinkId, until: u64, now: Timestamp) -> bool {
        if self.revoked.len() >= MAX_REVOKED {
            self.revoked.retain(|(_, until)| is_remembered(*until, now));
        }
        let fits = self.revoked.len() < MAX_REVOKED;
        if fits {
            self.revoked.push((link, until));
        }
        fits
    }

    /// Adds the links and revocations that only the other list of the same generation has. Returns whether it
    /// has any, and whether all of them fit.
    pub(crate) fn merge(&mut self, other: &Self, now: Timestamp) -> (bool, bool) {
        let (mut has_any, mut fits) = (false, true);
        for (link, until) in &other.revoked {
            if is_remembered(*until, now) && !self.is_revoked(*link) {
                self.links.retain(|created| created.id != *link);
                fits &= self.push_revoked(*link, *until, now);
                has_any = true;
            }
        }
        for link in &other.links {
            if now.as_unix() < link.until && !self.contains(link.id) {
                fits &= self.add(link, now);
                has_any = true;
            }
        }
        (has_any, fits)
    }
}

/// Returns `true` if a revoked link with this expiry has to stay listed.
const fn is_remembered(until: u64, now: Timestamp) -> bool {
    now.as_unix() < until.saturating_add(CLOCK_TOLERANCE)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sample(id: usize, until: u64) -> CreatedLink {
        let (path, query) = ("/shared".to_owned(), "counter=hits".to_owned());
        CreatedLink { id: LinkId(id as u64), path, query, created: 0, until }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix(seconds)
    }

    #[test]
    fn ids_have_a_single_form() {
        let id = LinkId(0xabcd);
        assert_eq!(LinkId::parse(&id.to_string()), Some(id));
        for text in
            ["", "abcd", "000000000000ABCD", "+00000000000abcd", "0000000000000abcd", "000000000000abcg"]
        {
            assert_eq!(LinkId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn expired_links_make_room_for_new_links() {
        let mut list = LinkList::default();
        for id in 0..MAX_LINKS {
            assert!(list.add(&sample(id, if id == 0 { 10 } else { 20 }), at(5)));
        }
        assert_eq!(list.active(at(10)).count(), MAX_LINKS - 1);
        assert!(!list.add(&sample(MAX_LINKS, 20), at(9)), "all links are active");
        assert!(list.add(&sample(MAX_LINKS, 20), at(10)));
        let newest = list.active(at(10)).next().expect("a link");
        assert_eq!((newest.id, list.links.len()), (LinkId(MAX_LINKS as u64), MAX_LINKS));
    }

    #[test]
    fn revoked_links_are_listed_until_long_after_the_expiry() {
        let mut list = LinkList::default();
        let mut revoke = |id: usize, now| {
            assert!(list.add(&sample(id, 10 + id as u64), at(0)));
            let fits = list.revoke(LinkId(id as u64), now);
            assert!(list.revoke(LinkId(id as u64), now), "it is already revoked");
            (fits, list.is_revoked(LinkId(0)), list.is_revoked(LinkId(id as u64)))
        };
        for id in 0..MAX_REVOKED {
            assert_eq!(revoke(id, at(10 + CLOCK_TOLERANCE)), (true, true, true));
        }
        assert_eq!(revoke(MAX_REVOKED, at(9 + CLOCK_TOLERANCE)), (false, true, false), "the list is full");
        assert_eq!(revoke(MAX_REVOKED + 1, at(10 + CLOCK_TOLERANCE)), (true, false, true));
        assert_eq!(revoke(MAX_REVOKED + 2, at(10 + CLOCK_TOLERANCE)), (false, false, false));
    }
}
