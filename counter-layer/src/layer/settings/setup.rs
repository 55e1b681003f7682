//! Checks for setups that lead to wrong counts although nothing fails.
//!
//! A check is open until a request shows that the setup is correct. Then it is closed, so in a correct setup,
//! the layer just needs to read a number per request. If a check reaches the threshold it raises a hint, and
//! withdraws it if such a request arrives later.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use counter_core::Recorder;
use counter_core::visits::Hint;
use foldhash::quality::RandomState;
use http::{HeaderMap, header};

use crate::identity::{Reads, RequestHead, Visitors};

/// A kind of check. The discriminant is the bit number in the state, and the index of the count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Check {
    MatchedPath,
    Address,
    Identity,
    Forwarding,
    OneAddress,
    Cookie,
}

/// For each check, the number of requests after which to raise a hint, and the hint.
const CHECKS: [(u32, Hint); 6] = [
    (
        100,
        Hint::new(
            "no_matched_path",
            "None of the first 100 requests had a matched path, so they only count under `hits`.",
            "Put the layer on the `Router` of axum 0.8; with another version of axum or another router, set \
             `AccessCounterLayer::matched_path` or rules.",
        ),
    ),
    (
        100,
        Hint::new(
            "no_peer_address",
            "None of the first 100 human requests had a client address, so they have no visitors.",
            "Serve with `into_make_service_with_connect_info::<SocketAddr>()` of axum 0.8, insert a `SocketAddr` \
             extension, or set `Address::peer_from_fn`.",
        ),
    ),
    (
        100,
        Hint::new(
            "no_identity",
            "None of the first 100 human requests had the source of the identity, so they have no visitors.",
            "Check the name and type of the cookie, header or extension, and that it is inserted outside of the \
             layer.",
        ),
    ),
    (
        10,
        Hint::new(
            "untrusted_forwarding",
            "Requests have `Forwarded` or `X-Forwarded-For`, and no proxy is trusted: all people behind a proxy who use \
             the same browser count as one visitor.",
            "If you trust the proxy, set `Identity::forwarded` with the trusted hops or networks.",
        ),
    ),
    (
        1000,
        Hint::new(
            "one_address",
            "The first 1,000 human requests came from the same address, like behind a proxy: people who use \
             the same browser count as one visitor.",
            "Behind a proxy, set `Identity::forwarded` with the header set by the proxy.",
        ),
    ),
    (
        100,
        Hint::new(
            "no_cookie_returned",
            "The visitor cookie was set 100 times, but never sent back: every request is a new visitor.",
            "Over plain HTTP, browsers drop it unless `IssuedCookie::insecure` is set. If clients don't keep \
             cookies, set `IssuedCookie::only_returned` to not count them as visitors.",
        ),
    ),
];

/// Number of human requests to check for proxy headers.
const MAX_FORWARDING_CHECKS: u32 = 1000;

/// The checks of a layer, shared by all services.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Two bits per check: whether it is open (low byte), and whether the hint is raised (high byte).
    state: AtomicU16,
    /// Number of requests counted towards each hint.
    counts: [AtomicU32; CHECKS.len()],
    forwarding_checks: AtomicU32,
    /// Keyed hash of the first client address, or 0.
    address: AtomicU64,
    hasher: RandomState,
}

impl Check {
    /// The open bits of all checks except for the matched path.
    const VISITORS: u16 = (1 << CHECKS.len()) - 1 - Self::MatchedPath.open();

    const fn open(self) -> u16 {
        1 << self as u16
    }

    const fn raised(self) -> u16 {
        self.open() << 8
    }
}

impl Setup {
    /// Creates closed checks, for requests that are served by another process.
    pub(crate) fn disabled() -> Self {
        Self { state: AtomicU16::new(0), ..Self::default() }
    }

    /// Returns `true` if a request with (`is_matched`) or without a matched path is relevant for this check.
    #[inline]
    pub(crate) fn watches_paths(&self, is_matched: bool) -> bool {
        let (open, raised) = (Check::MatchedPath.open(), Check::MatchedPath.raised());
        let state = self.state.load(Ordering::Relaxed) & (open | raised);
        // After the hint is raised, further requests without a matched path are not relevant.
        state == open || (is_matched && state != 0)
    }

    /// Returns `true` if a request from this client may be relevant for the visitor checks.
    #[inline]
    pub(crate) fn watches_visitors(&self, client: Option<u128>) -> bool {
        let (open, raised) = (Check::OneAddress.open(), Check::OneAddress.raised());
        match self.state.load(Ordering::Relaxed) & (Check::VISITORS | raised) {
            0 => false,
            // After this hint is raised, only a different client is relevant, but there may never be one.
            state if state == open | raised => client.is_some_and(|client| !self.is_first(client)),
            state => state & Check::VISITORS != 0,
        }
    }

    /// Counts a request without a matched path towards the hint, or closes the check if there was a path.
    #[inline(never)]
    pub(crate) fn path(&self, recorder: &Recorder, is_matched: bool) {
        self.observe(recorder, Check::MatchedPath, is_matched);
    }

    /// Records how a human request was identified.
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
        let relevant = match visitors.reads() {
            Reads::None => 0,
            Reads::Address(address) => {
                self.observe(recorder, Check::Address, is_known);
                if is_open(Check::OneAddress)
                    && let Some(client) = client
                {
                    self.observe(recorder, Check::OneAddress, self.is_another(client));
                }
                if address.trusts_proxies() {
                    Check::Address.open() | Check::OneAddress.open()
                } else {
                    if is_open(Check::Forwarding) {
                        self.check_forwarding(recorder, head.headers);
                    }
                    Check::Address.open() | Check::OneAddress.open() | Check::Forwarding.open()
                }
            }
            Reads::IssuedCookie => {
                if is_known || is_issued {
                    self.observe(recorder, Check::Cookie, !is_issued);
                }
                Check::Cookie.open()
            }
            Reads::Other => {
                self.observe(recorder, Check::Identity, is_known);
                Check::Identity.open()
            }
        };
        if state & Check::VISITORS & !relevant != 0 {
            self.state.fetch_and(relevant | !Check::VISITORS, Ordering::Relaxed);
        }
    }

    fn check_forwarding(&self, recorder: &Recorder, headers: &HeaderMap) {
        if headers.contains_key(header::FORWARDED) || headers.contains_key("x-forwarded-for") {
            self.observe(recorder, Check::Forwarding, false);
        }
        // A proxy adds these headers from the start, so we can stop if there are none. A raised hint can't be
        // refuted either.
        let is_done = self.forwarding_checks.fetch_add(1, Ordering::Relaxed) >= MAX_FORWARDING_CHECKS;
        if is_done || self.state.load(Ordering::Relaxed) & Check::Forwarding.raised() != 0 {
            self.state.fetch_and(!Check::Forwarding.open(), Ordering::Relaxed);
        }
    }

    /// Returns `true` if this client differs from the first client.
    fn is_another(&self, client: u128) -> bool {
        let hash = self.hash(client);
        match self.address.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => false,
            Err(first) => first != hash,
        }
    }

    /// Returns `true` if this is the first client.
    fn is_first(&self, client: u128) -> bool {
        self.address.load(Ordering::Relaxed) == self.hash(client)
    }

    fn hash(&self, client: u128) -> u64 {
        self.hasher.hash_one(client) | 1
    }

    /// Counts a request towards a hint, or closes the check if the setup is correct.
    fn observe(&self, recorder: &Recorder, check: Check, is_ok: bool) {
        let (threshold, hint) = CHECKS[check as usize];
        let (open, raised) = (check.open(), check.raised());
        if self.state.load(Ordering::Relaxed) & open == 0 {
            return;
        }
        let counts = &self.counts[check as usize];
        if is_ok {
            if self.state.fetch_and(!(open | raised), Ordering::Relaxed) & raised != 0 {
                recorder.withdraw_hint(hint);
            }
        } else if counts.load(Ordering::Relaxed) < threshold
            && counts.fetch_add(1, Ordering::Relaxed) + 1 == threshold
        {
            recorder.raise_hint(hint);
            // The request that closes the check may have arrived in between.
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
            counts: Default::default(),
            forwarding_checks: AtomicU32::default(),
            address: AtomicU64::default(),
            hasher: RandomState::default(),
        }
    }
}
