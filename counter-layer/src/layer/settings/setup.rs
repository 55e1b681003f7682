//! Signs in requests that a layer is set up so that its numbers are wrong, although nothing fails.
//!
//! A check is open until a request shows that all is well in its respect. Then it is over, so that a layer that is
//! set up well reads one number for each request. A check that has seen enough raises its hint, and takes it back when
//! such a request comes after all.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use counter_core::Recorder;
use counter_core::visits::Hint;
use foldhash::quality::RandomState;
use http::{HeaderMap, header};

use crate::identity::{Reads, RequestHead, Visitors};

/// A check, by the place of its bit and of its number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Check {
    MatchedPath,
    Address,
    Identity,
    Forwarding,
    OneAddress,
    Cookie,
}

/// The checks with the requests that raise each hint, and the hint: this table is the list of them.
const CHECKS: [(u32, Hint); 6] = [
    (
        100,
        Hint::new(
            "no_matched_path",
            "None of the first 100 requests had a matched path, so they count under `hits` alone.",
            "Put the layer on the `Router` of axum 0.8; with another version of axum or another router, set \
             `AccessCounterLayer::matched_path` or rules.",
        ),
    ),
    (
        100,
        Hint::new(
            "no_peer_address",
            "None of the first 100 requests of people had the address of a client, so they have no visitors.",
            "Serve with `into_make_service_with_connect_info::<SocketAddr>()` of axum 0.8, insert a `SocketAddr` \
             extension, or set `Address::peer_from_fn`.",
        ),
    ),
    (
        100,
        Hint::new(
            "no_identity",
            "None of the first 100 requests of people had what the identity reads, so they have no visitors.",
            "Look whether the cookie, the header or the extension has that name and type, and is there before the \
             layer.",
        ),
    ),
    (
        10,
        Hint::new(
            "untrusted_forwarding",
            "Requests have `Forwarded` or `X-Forwarded-For`, and no proxy is trusted: all people behind a proxy with \
             the same browser are one visitor.",
            "If the proxy is yours, choose `Identity::forwarded` with the hops or networks that you trust.",
        ),
    ),
    (
        1000,
        Hint::new(
            "one_address",
            "The first 1,000 requests of people all came from one address, as those behind a proxy do: people with \
             the same browser are one visitor.",
            "Behind a proxy, choose `Identity::forwarded` with the header that it writes.",
        ),
    ),
    (
        100,
        Hint::new(
            "no_cookie_returned",
            "The visitor cookie was set 100 times and never came back: each request is a new visitor.",
            "Over plain HTTP a browser drops it unless `IssuedCookie::insecure` is set. Where clients keep no \
             cookies, `IssuedCookie::only_returned` does not count them as visitors.",
        ),
    ),
];

/// The number of requests of people in which headers of proxies are looked for.
const LOOKED_AT: u32 = 1000;

/// The checks of one layer, which all of its services share.
#[derive(Debug)]
pub(crate) struct Setup {
    /// For each check a bit if it is open, and one if its hint is raised.
    state: AtomicU16,
    /// The requests that count towards each hint.
    seen: [AtomicU32; CHECKS.len()],
    looked_at: AtomicU32,
    /// A keyed hash of the first client's address; 0 before there is one.
    address: AtomicU64,
    hasher: RandomState,
}

impl Check {
    /// All checks but that of paths.
    const VISITORS: u16 = (1 << CHECKS.len()) - 1 - Self::MatchedPath.open();

    const fn open(self) -> u16 {
        1 << self as u16
    }

    const fn raised(self) -> u16 {
        self.open() << 8
    }
}

impl Setup {
    /// Creates checks that are over: for requests that no server serves.
    pub(crate) fn over() -> Self {
        Self { state: AtomicU16::new(0), ..Self::default() }
    }

    /// Returns whether such a request tells something about matched paths.
    #[inline]
    pub(crate) fn watches_paths(&self, is_matched: bool) -> bool {
        let (open, raised) = (Check::MatchedPath.open(), Check::MatchedPath.raised());
        let state = self.state.load(Ordering::Relaxed) & (open | raised);
        // One without is of no more interest once the hint is raised.
        state == open || (is_matched && state != 0)
    }

    /// Returns whether a request of this client may tell something about visitors.
    #[inline]
    pub(crate) fn watches_visitors(&self, client: Option<u128>) -> bool {
        let (open, raised) = (Check::OneAddress.open(), Check::OneAddress.raised());
        match self.state.load(Ordering::Relaxed) & (Check::VISITORS | raised) {
            0 => false,
            // Only another client is of interest once that hint is raised, and it may be for ever.
            state if state == open | raised => client.is_some_and(|client| !self.is_first(client)),
            state => state & Check::VISITORS != 0,
        }
    }

    /// Notes whether a request had a matched path.
    #[inline(never)]
    pub(crate) fn path(&self, recorder: &Recorder, is_matched: bool) {
        self.note(recorder, Check::MatchedPath, is_matched);
    }

    /// Notes what the identity made of a request of a person.
    #[inline(never)]
    pub(crate) fn visitor(
        &self,
        recorder: &Recorder,
        visitors: &Visitors,
        head: &RequestHead<'_>,
        client: Option<u128>,
        is_known: bool,
        is_issued: bool,
    ) {
        let state = self.state.load(Ordering::Relaxed);
        let is_open = |check: Check| state & check.open() != 0;
        let concerned = match visitors.reads() {
            Reads::Nothing => 0,
            Reads::Address(address) => {
                self.note(recorder, Check::Address, is_known);
                if is_open(Check::OneAddress)
                    && let Some(client) = client
                {
                    self.note(recorder, Check::OneAddress, self.is_another(client));
                }
                if address.trusts_proxies() {
                    Check::Address.open() | Check::OneAddress.open()
                } else {
                    if is_open(Check::Forwarding) {
                        self.look_for_proxies(recorder, head.headers);
                    }
                    Check::Address.open() | Check::OneAddress.open() | Check::Forwarding.open()
                }
            }
            Reads::IssuedCookie => {
                if is_known || is_issued {
                    self.note(recorder, Check::Cookie, !is_issued);
                }
                Check::Cookie.open()
            }
            Reads::Other => {
                self.note(recorder, Check::Identity, is_known);
                Check::Identity.open()
            }
        };
        if state & Check::VISITORS & !concerned != 0 {
            self.state.fetch_and(concerned | !Check::VISITORS, Ordering::Relaxed);
        }
    }

    fn look_for_proxies(&self, recorder: &Recorder, headers: &HeaderMap) {
        if headers.contains_key(header::FORWARDED) || headers.contains_key("x-forwarded-for") {
            self.note(recorder, Check::Forwarding, false);
        }
        // A proxy writes them from the first request on: without any, they are looked for no longer. And a hint that
        // is raised cannot be refuted.
        let is_over = self.looked_at.fetch_add(1, Ordering::Relaxed) >= LOOKED_AT;
        if is_over || self.state.load(Ordering::Relaxed) & Check::Forwarding.raised() != 0 {
            self.state.fetch_and(!Check::Forwarding.open(), Ordering::Relaxed);
        }
    }

    /// Returns whether this is another client than the first.
    fn is_another(&self, client: u128) -> bool {
        let hash = self.hash(client);
        match self.address.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => false,
            Err(first) => first != hash,
        }
    }

    /// Returns whether this is the first client, once there is one.
    fn is_first(&self, client: u128) -> bool {
        self.address.load(Ordering::Relaxed) == self.hash(client)
    }

    fn hash(&self, client: u128) -> u64 {
        self.hasher.hash_one(client) | 1
    }

    /// Counts a request towards a hint, or ends the check where all is well.
    fn note(&self, recorder: &Recorder, check: Check, is_well: bool) {
        let (enough, hint) = CHECKS[check as usize];
        let (open, raised) = (check.open(), check.raised());
        if self.state.load(Ordering::Relaxed) & open == 0 {
            return;
        }
        let seen = &self.seen[check as usize];
        if is_well {
            if self.state.fetch_and(!(open | raised), Ordering::Relaxed) & raised != 0 {
                recorder.withdraw_hint(hint);
            }
        } else if seen.load(Ordering::Relaxed) < enough && seen.fetch_add(1, Ordering::Relaxed) + 1 == enough
        {
            recorder.raise_hint(hint);
            // The request that ends the check may have come meanwhile.
            if self.state.fetch_or(raised, Ordering::Relaxed) & open == 0 {
                recorder.withdraw_hint(hint);
            }
        }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            state: AtomicU16::new((1 << CHECKS.len()) - 1),
            seen: Default::default(),
            looked_at: AtomicU32::default(),
            address: AtomicU64::default(),
            hasher: RandomState::default(),
        }
    }
}
