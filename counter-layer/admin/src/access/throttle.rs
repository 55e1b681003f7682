//! Limits guesses of credentials.
//!
//! The budget is checked before comparing a guess, so a client can't avoid the limit by not waiting for the
//! response. Peers have individual budgets, and all strangers (peers that have never sent valid credentials)
//! share an additional budget. Strangers can't affect peers that have sent valid credentials before, or
//! credentials that were valid before. Valid credentials don't use up the budget.
//!
//! Wrong credentials are cached instead of being compared again, e.g. if a page stays open while the token is
//! changed. Sessions and links are signed, so they don't need a budget.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The recent guesses of up to [`MAX_PEERS`] peers, as hashes with a random key.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: AtomicU64,
    hasher: RandomState,
    history: Mutex<History>,
}

/// Credentials in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Credentials<'a> {
    Token(&'a str),
    Basic(&'a str),
}

/// The result of comparing the credentials in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Valid,
    Wrong,
    /// Not compared; the client can try again after this time.
    Throttled(Duration),
}

#[derive(Debug, Default)]
struct History {
    /// The budget shared by peers that have never sent valid credentials.
    strangers: Budget,
    peers: HashMap<u64, Peer>,
    wrong: Recent,
    valid: Recent,
    logged: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    budget: Budget,
    /// True if this peer has ever sent valid credentials.
    known: bool,
    last: Instant,
}

/// A budget of wrong guesses, which refills over time.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// When the budget will be full again.
    clear: Option<Instant>,
}

/// A burst of guesses, with an additional guess per period.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    period: Duration,
}

/// The hashes of the latest credentials, up to [`MAX_CREDENTIALS`].
#[derive(Debug, Default)]
struct Recent {
    all: HashSet<u64>,
    order: VecDeque<u64>,
}

const PEER_RATE: Rate = Rate { burst: 10, period: Duration::from_secs(10) };
/// The rate of wrong guesses by all strangers together. At this rate, it takes 10^19 years to try all tokens
/// of minimum length, if they consist of random letters and digits.
const STRANGER_RATE: Rate = Rate { burst: 1000, period: Duration::from_millis(20) };

/// Maximum number of peers to remember.
const MAX_PEERS: usize = 4096;
/// Maximum number of credentials to remember: wrong credentials, and separately those that were valid.
const MAX_CREDENTIALS: usize = 1024;
/// Minimum interval between log messages about failed logins.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Attempts {
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts a failed login.
    pub(crate) fn fail(&self) {
        let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Instant::now();
        let is_due = {
            let mut history = self.history();
            let is_due = history.logged.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL);
            if is_due {
                history.logged = Some(now);
            }
            is_due
        };
        if is_due {
            tracing::warn!(failed, "failed login to the statistics");
        }
    }

    /// Marks a peer as known because of a valid session.
    pub(crate) fn recognize(&self, peer: Option<u128>) {
        let peer = self.hasher.hash_one(peer);
        self.history().peer(peer, Instant::now()).known = true;
    }

    /// Checks credentials, unless the budget is used up. Requests without a client address share a peer.
    pub(crate) fn check_login(
        &self,
        peer: Option<u128>,
        credentials: Credentials<'_>,
        is_valid: impl FnOnce() -> bool,
    ) -> Comparison {
        let (peer, text) = (self.hasher.hash_one(peer), self.hasher.hash_one(credentials));
        self.history().check_login(peer, text, is_valid, Instant::now())
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl History {
    fn check_login(
        &mut self,
        peer: u64,
        text: u64,
        is_valid: impl FnOnce() -> bool,
        now: Instant,
    ) -> Comparison {
        if self.wrong.contains(text) {
            return Comparison::Wrong;
        }
        let was_valid = self.valid.contains(text);
        let (peer_wait, strangers) = self.waits(peer, now);
        if !peer_wait.is_zero() {
            return Comparison::Throttled(peer_wait);
        }
        if !strangers.is_zero() && !was_valid {
            // The response reveals that these credentials have never been valid, so this also counts as a
            // guess.
            self.peer(peer, now).budget.spend(PEER_RATE, now);
            return Comparison::Throttled(strangers);
        }
        if is_valid() {
            self.valid.add(text);
            self.peer(peer, now).known = true;
            return Comparison::Valid;
        }
        self.wrong.add(text);
        let peer = self.peer(peer, now);
        peer.budget.spend(PEER_RATE, now);
        if !peer.known {
            self.strangers.spend(STRANGER_RATE, now);
        }
        Comparison::Wrong
    }

    /// Returns how long to wait for the peer budget, and for the stranger budget if it applies.
    fn waits(&self, peer: u64, now: Instant) -> (Duration, Duration) {
        let peer = self.peers.get(&peer);
        let peer_wait = peer.map_or(Duration::ZERO, |peer| peer.budget.wait(PEER_RATE, now));
        let is_known = peer.is_some_and(|peer| peer.known);
        (peer_wait, if is_known { Duration::ZERO } else { self.strangers.wait(STRANGER_RATE, now) })
    }

    /// Returns the entry of a peer. If the table is full, this evicts the least recently used entry,
    /// strangers first.
    fn peer(&mut self, peer: u64, now: Instant) -> &mut Peer {
        if self.peers.len() >= MAX_PEERS && !self.peers.contains_key(&peer) {
            let oldest = self.peers.iter().min_by_key(|(_, peer)| (peer.known, peer.last));
            if let Some(oldest) = oldest.map(|(peer, _)| *peer) {
                self.peers.remove(&oldest);
            }
        }
        let new = Peer { budget: Budget::default(), known: false, last: now };
        let peer = self.peers.entry(peer).or_insert(new);
        peer.last = now;
        peer
    }
}

impl Budget {
    fn debt(self, now: Instant) -> Duration {
        self.clear.map_or(Duration::ZERO, |clear| clear.saturating_duration_since(now))
    }

    fn wait(self, rate: Rate, now: Instant) -> Duration {
        (self.debt(now) + rate.period).saturating_sub(rate.period * rate.burst)
    }

    fn spend(&mut self, rate: Rate, now: Instant) {
        self.clear = Some(now + self.debt(now) + rate.period);
    }
}

impl Recent {
    fn contains(&self, text: u64) -> bool {
        self.all.contains(&text)
    }

    fn add(&mut self, text: u64) {
        if !self.all.insert(text) {
            return;
        }
        self.order.push_back(text);
        if self.order.len() > MAX_CREDENTIALS
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns how many of these guesses are compared. All guesses are wrong and distinct.
    fn compared(history: &mut History, guesses: impl Iterator<Item = (u64, Instant)>) -> usize {
        let mut compared = 0;
        for (peer, now) in guesses {
            let text = history.wrong.order.back().map_or(1000, |last| last + 1);
            let judged = history.check_login(peer, text, || false, now);
            compared += usize::from(judged == Comparison::Wrong);
        }
        compared
    }

    /// Uses up the budget of strangers with guesses from peers 1,000 and up.
    fn exhaust_strangers(history: &mut History, now: Instant) {
        assert_eq!(compared(history, (1000..5000).map(|peer| (peer, now))), 1000);
    }

    #[test]
    fn a_peer_has_ten_guesses_and_then_one_per_ten_seconds() {
        let (mut history, now) = (History::default(), Instant::now());
        assert_eq!(compared(&mut history, (0..1000).map(|_| (1, now))), 10);
        let hour = (0..36_000).map(|n| (1, now + n * SECOND / 10));
        assert_eq!(compared(&mut history, hour), 359);
        let rested = now + 7200 * SECOND;
        assert_eq!(compared(&mut history, (0..1000).map(|_| (1, rested))), 10);
    }

    #[test]
    fn strangers_share_a_thousand_guesses_and_then_fifty_per_second() {
        let (mut history, now) = (History::default(), Instant::now());
        exhaust_strangers(&mut history, now);
        let minute = (0..6000).map(|n| (10_000 + u64::from(n), now + n * SECOND / 100));
        assert_eq!(compared(&mut history, minute), 2999);
    }

    #[test]
    fn strangers_do_not_affect_known_peers_and_credentials() {
        let (mut history, now) = (History::default(), Instant::now());
        let valid = |history: &mut History, peer, text| history.check_login(peer, text, || true, now);
        assert_eq!(valid(&mut history, 1, 1), Comparison::Valid);
        exhaust_strangers(&mut history, now);
        for _ in 0..100 {
            assert_eq!(valid(&mut history, 1, 2), Comparison::Valid, "a known peer");
            assert_eq!(valid(&mut history, 2, 1), Comparison::Valid, "known credentials");
        }
        assert!(matches!(valid(&mut history, 3, 3), Comparison::Throttled(_)), "neither of them");
        assert_eq!(compared(&mut history, (0..100).map(|_| (1, now))), 10);
        assert_eq!(valid(&mut history, 1, 1), Comparison::Throttled(10 * SECOND));
    }

    #[test]
    fn throttled_strangers_still_use_up_the_peer_budget() {
        let (mut history, now) = (History::default(), Instant::now());
        assert_eq!(history.check_login(1, 1, || true, now), Comparison::Valid);
        exhaust_strangers(&mut history, now);
        for text in 0..10 {
            assert!(matches!(
                history.check_login(2, 100_000 + text, || false, now),
                Comparison::Throttled(_)
            ));
        }
        assert_eq!(history.check_login(2, 1, || true, now), Comparison::Throttled(10 * SECOND));
    }

    #[test]
    fn repeated_wrong_credentials_cost_a_single_guess() {
        let (mut history, now) = (History::default(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(history.check_login(1, 2, || false, now), Comparison::Wrong);
        }
        assert_eq!(compared(&mut history, (0..100).map(|_| (1, now))), 9);
    }

    #[test]
    fn memory_is_bounded_and_strangers_are_evicted_first() {
        let (mut history, mut now) = (History::default(), Instant::now());
        for peer in 0..10 {
            history.check_login(peer, 1, || true, now);
        }
        for n in 0..6000 {
            now += SECOND;
            assert_eq!(history.check_login(100 + n, 100 + n, || false, now), Comparison::Wrong);
        }
        assert_eq!(
            (history.peers.len(), history.wrong.all.len(), history.wrong.order.len()),
            (MAX_PEERS, MAX_CREDENTIALS, MAX_CREDENTIALS)
        );
        assert!((0..10).all(|peer| history.peers[&peer].known));
    }
}
