//! The limit on guesses of credentials.
//!
//! A guess is looked up in a budget before it is compared, so that it makes no difference whether its maker
//! waits for the answer. Each peer has a budget, and all those together that have never shown what is right
//! have another: many addresses do not guess faster, and a client that has logged in from an address is not
//! kept out by what others do. What is right costs nothing.
//!
//! What was wrong once is no guess when it is shown again, such as by a page that stays open over a change of
//! the token. A session that was right once is compared without a budget: it has a nonce that cannot be guessed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The recent guesses of some thousand peers, as hashes under a key of this process.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: AtomicU64,
    hasher: RandomState,
    seen: Mutex<Seen>,
}

/// Something that opens, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shown<'a> {
    Token(&'a str),
    Basic(&'a str),
    Session(&'a str),
}

/// The outcome of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Right,
    Wrong,
    /// Not compared; the credentials may be shown again after this time.
    NotYet(Duration),
}

#[derive(Debug, Default)]
struct Seen {
    /// Spent by peers that have never shown what is right.
    strangers: Budget,
    peers: HashMap<u64, Peer>,
    wrong: Recent,
    sessions: Recent,
    logged: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    budget: Budget,
    /// The peer has shown valid credentials.
    known: bool,
    last: Instant,
}

/// Wrong guesses, each of which is forgotten after a while.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// The time at which all of them are forgotten.
    clear: Option<Instant>,
}

/// A burst of guesses, and one more after each period.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    period: Duration,
}

/// The last so many hashes.
#[derive(Debug, Default)]
struct Recent {
    all: HashSet<u64>,
    order: VecDeque<u64>,
}

const OF_A_PEER: Rate = Rate { burst: 10, period: Duration::from_secs(10) };
const OF_STRANGERS: Rate = Rate { burst: 100, period: Duration::from_secs(1) };

/// Peers that are remembered.
const PEERS: usize = 4096;
/// Texts that are remembered, of each kind.
const TEXTS: usize = 1024;
/// Between two lines of the log.
const QUIET: Duration = Duration::from_secs(60);

impl Attempts {
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts a failed login.
    pub(crate) fn fail(&self) {
        let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Instant::now();
        let is_due = {
            let mut seen = self.seen();
            let is_due = seen.logged.is_none_or(|at| now.duration_since(at) >= QUIET);
            if is_due {
                seen.logged = Some(now);
            }
            is_due
        };
        if is_due {
            tracing::warn!(failed, "a login to the statistics failed");
        }
    }

    /// Compares what a peer shows, if it may guess. Nothing is known of some peers: they have one budget.
    pub(crate) fn judge(
        &self,
        peer: Option<u128>,
        shown: Shown<'_>,
        is_right: impl FnOnce() -> bool,
    ) -> Judgement {
        let (peer, text) = (self.hasher.hash_one(peer), self.hasher.hash_one(shown));
        self.seen().judge(peer, (shown, text), is_right, Instant::now())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn judge(
        &mut self,
        peer: u64,
        (shown, text): (Shown<'_>, u64),
        is_right: impl FnOnce() -> bool,
        now: Instant,
    ) -> Judgement {
        let is_session = matches!(shown, Shown::Session(_));
        if !(is_session && self.sessions.contains(text)) {
            if self.wrong.contains(text) {
                return Judgement::Wrong;
            }
            let wait = self.wait(peer, now);
            if !wait.is_zero() {
                return Judgement::NotYet(wait);
            }
        }
        if is_right() {
            if is_session {
                self.sessions.add(text);
            }
            self.peer(peer, now).known = true;
            return Judgement::Right;
        }
        self.wrong.add(text);
        let peer = self.peer(peer, now);
        peer.budget.spend(OF_A_PEER, now);
        if !peer.known {
            self.strangers.spend(OF_STRANGERS, now);
        }
        Judgement::Wrong
    }

    /// The time that a peer has to wait before its next guess.
    fn wait(&self, peer: u64, now: Instant) -> Duration {
        let peer = self.peers.get(&peer);
        let own = peer.map_or(Duration::ZERO, |peer| peer.budget.wait(OF_A_PEER, now));
        if peer.is_some_and(|peer| peer.known) {
            own
        } else {
            own.max(self.strangers.wait(OF_STRANGERS, now))
        }
    }

    /// The record of a peer. When there are too many, the peer that was away for longest is forgotten, known
    /// peers last.
    fn peer(&mut self, peer: u64, now: Instant) -> &mut Peer {
        if self.peers.len() >= PEERS && !self.peers.contains_key(&peer) {
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
        if self.order.len() > TEXTS
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

    /// The number of these guesses, all wrong and no two the same, that are compared.
    fn compared(seen: &mut Seen, guesses: impl Iterator<Item = (u64, Instant)>) -> usize {
        let mut compared = 0;
        for (peer, now) in guesses {
            let text = seen.wrong.order.back().map_or(1000, |last| last + 1);
            let judged = seen.judge(peer, (Shown::Token(""), text), || false, now);
            compared += usize::from(judged == Judgement::Wrong);
        }
        compared
    }

    #[test]
    fn a_peer_guesses_ten_times_and_then_once_in_ten_seconds() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        assert_eq!(compared(&mut seen, (0..1000).map(|_| (1, now))), 10);
        let hour = (0..36_000).map(|n| (1, now + n * SECOND / 10));
        assert_eq!(compared(&mut seen, hour), 359);
        let rested = now + 7200 * SECOND;
        assert_eq!(compared(&mut seen, (0..1000).map(|_| (1, rested))), 10);
    }

    #[test]
    fn strangers_together_guess_a_hundred_times_and_then_once_a_second() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        assert_eq!(compared(&mut seen, (0..10_000).map(|peer| (peer, now))), 100);
        let hour = (0..36_000).map(|n| (u64::from(n), now + n * SECOND / 10));
        assert_eq!(compared(&mut seen, hour), 3599);
    }

    #[test]
    fn who_is_known_has_a_budget_of_its_own_only_and_what_is_right_costs_nothing() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let right = |seen: &mut Seen, peer| seen.judge(peer, (Shown::Token("right"), 1), || true, now);
        assert_eq!(right(&mut seen, 1), Judgement::Right);
        assert_eq!(compared(&mut seen, (100..1100).map(|peer| (peer, now))), 100);
        for _ in 0..100 {
            assert_eq!(right(&mut seen, 1), Judgement::Right);
        }
        assert_eq!(right(&mut seen, 2), Judgement::NotYet(SECOND));
        assert_eq!(compared(&mut seen, (0..100).map(|_| (1, now))), 10);
        assert_eq!(right(&mut seen, 1), Judgement::NotYet(10 * SECOND));
    }

    #[test]
    fn what_was_wrong_is_no_guess_again_and_a_session_that_was_right_needs_no_budget() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let session = (Shown::Session("right"), 1);
        assert_eq!(seen.judge(1, session, || true, now), Judgement::Right);
        for _ in 0..1000 {
            assert_eq!(seen.judge(1, (Shown::Session("stale"), 2), || false, now), Judgement::Wrong);
        }
        assert_eq!(compared(&mut seen, (0..100).map(|_| (1, now))), 9);
        assert_eq!(compared(&mut seen, (100..1100).map(|peer| (peer, now))), 100);
        for peer in [1, 2] {
            assert_eq!(seen.judge(peer, session, || true, now), Judgement::Right);
        }
        // It is compared all the same.
        assert_eq!(seen.judge(1, session, || false, now), Judgement::Wrong);
    }

    #[test]
    fn memory_is_bounded_and_those_that_are_known_are_forgotten_last() {
        let (mut seen, mut now) = (Seen::default(), Instant::now());
        for peer in 0..10 {
            seen.judge(peer, (Shown::Token("right"), 1), || true, now);
        }
        for n in 0..6000 {
            now += SECOND;
            let judged = seen.judge(100 + n, (Shown::Token("wrong"), 100 + n), || false, now);
            assert_eq!(judged, Judgement::Wrong);
        }
        assert_eq!((seen.peers.len(), seen.wrong.all.len(), seen.wrong.order.len()), (PEERS, TEXTS, TEXTS));
        assert!((0..10).all(|peer| seen.peers[&peer].known));
    }
}
