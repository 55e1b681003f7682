//! The traffic of the demo site: the kinds of requests, and the number of requests at any time.

use std::f64::consts::TAU;
use std::ops::Range;

use counter_core::Timestamp;

use super::dice::Dice;

/// A kind of request, and the response of the site.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) client: Client,
    pub(super) path: &'static str,
    /// Route template, if the path has one.
    pub(super) route: Option<&'static str>,
    pub(super) status: u16,
    /// Typical response time in seconds.
    pub(super) seconds: f64,
    /// Number of requests in relation to the other kinds.
    share: u32,
}

/// The client that sends a kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// A person who reads pages.
    Reader,
    /// A member of the forum who acts, with a POST request.
    Member,
    /// A program.
    Bot,
}

/// All kinds of requests.
pub(super) static KINDS: [Kind; 33] = [
    page(30, "/", "/"),
    page(18, "/articles", "/articles"),
    page(16, "/articles/1", "/articles/{id}"),
    page(10, "/articles/2", "/articles/{id}"),
    page(6, "/articles/3", "/articles/{id}"),
    page(5, "/search?q=once", "/search"),
    page(3, "/search?q=fold", "/search"),
    page(2, "/search?q=nothing", "/search"),
    page(4, "/download/notes.txt", "/download/{file}"),
    page(10, "/posts", "/posts"),
    page(12, "/posts/1", "/posts/{id}"),
    page(6, POPULAR, "/posts/{id}"),
    page(4, "/posts/3", "/posts/{id}"),
    page(4, "/members", "/members"),
    page(4, "/groups/1", "/groups/{id}"),
    Kind { seconds: 1.002, ..page(2, "/slow", "/slow") },
    Kind { status: 404, ..page(2, "/articles/17", "/articles/{id}") },
    Kind { status: 404, route: None, ..page(3, "/an/old/link", "") },
    Kind { status: 500, ..page(1, FAILING, FAILING) },
    action(4, "/posts/1/like", "/posts/{id}/like"),
    action(4, "/posts/2/like", "/posts/{id}/like"),
    action(2, "/posts/2/unlike", "/posts/{id}/unlike"),
    action(2, "/posts/3/like", "/posts/{id}/like"),
    action(3, "/members/1/follow", "/members/{id}/follow"),
    action(2, "/members/2/follow", "/members/{id}/follow"),
    action(3, "/groups/1/join", "/groups/{id}/join"),
    action(4, "/posts/1/comments", "/posts/{id}/comments"),
    Kind { client: Client::Bot, ..page(8, "/", "/") },
    Kind { client: Client::Bot, ..page(4, "/articles", "/articles") },
    Kind { client: Client::Bot, ..page(5, "/articles/1", "/articles/{id}") },
    Kind { client: Client::Bot, ..page(5, "/posts/1", "/posts/{id}") },
    Kind { client: Client::Bot, status: 404, route: None, ..page(4, "/wp-login.php", "") },
    Kind { client: Client::Bot, status: 404, route: None, ..page(2, "/an/old/link", "") },
];

/// The sum of the shares of all kinds.
const ALL_SHARES: u32 = {
    let (mut sum, mut kind) = (0, 0);
    while kind < KINDS.len() {
        sum += KINDS[kind].share;
        kind += 1;
    }
    sum
};

/// The post that other sites link to.
const POPULAR: &str = "/posts/2";

/// The page that fails.
const FAILING: &str = "/fail";

const fn page(share: u32, path: &'static str, route: &'static str) -> Kind {
    Kind { client: Client::Reader, path, route: Some(route), status: 200, seconds: 0.002, share }
}

const fn action(share: u32, path: &'static str, route: &'static str) -> Kind {
    Kind { client: Client::Member, status: 303, seconds: 0.008, ..page(share, path, route) }
}

/// Requests per second in the early afternoon of a weekday.
const MAX_RATE: f64 = 0.3;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Number of days before today on which the popular post got a link.
const LINKED_DAYS_AGO: [u64; 3] = [71, 38, 9];

/// The number of days before today on which a page kept failing for an hour.
const OUTAGE_DAYS_AGO: u64 = 4;

/// How many requests of each kind the site gets. The rate rises by day and falls at night and on weekends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// End of the history.
    end: Timestamp,
    utc_offset: i32,
}

impl Traffic {
    /// Length of the history.
    pub(super) const DAYS: u64 = 90;

    /// Creates traffic that has grown until `end`, for a site with this UTC offset in seconds.
    pub(super) const fn new(end: Timestamp, utc_offset: i32) -> Self {
        Self { end, utc_offset }
    }

    /// Returns the requests of this kind per second.
    pub(super) fn rate(self, kind: &Kind, at: Timestamp) -> f64 {
        let part = f64::from(kind.share) / f64::from(ALL_SHARES);
        part * self.total_rate(at) * self.popularity(kind, at) * self.failures(kind, at)
    }

    /// Returns the expected number of requests of this kind in a range.
    pub(super) fn expected(self, kind: &Kind, range: &Range<Timestamp>) -> f64 {
        let length = range.end.as_unix() - range.start.as_unix();
        let parts = length.div_ceil(3600);
        let middle = |part| range.start.plus((2 * part + 1) * length / (2 * parts));
        let sum: f64 = (0..parts).map(|part| self.rate(kind, middle(part))).sum();
        sum / parts as f64 * length as f64
    }

    /// Returns how much more people than usual read the page, because another site links to it.
    pub(super) fn popularity(self, kind: &Kind, at: Timestamp) -> f64 {
        if kind.path != POPULAR {
            return 1.0;
        }
        let boost = |days_ago| match self.local(at).checked_sub(self.midnight(days_ago) + 9 * 3600) {
            Some(since) => 60.0 * (-(since as f64) / (8.0 * 3600.0)).exp(),
            None => 0.0,
        };
        1.0 + LINKED_DAYS_AGO.map(boost).iter().sum::<f64>()
    }

    /// Returns how much more requests than usual fail.
    fn failures(self, kind: &Kind, at: Timestamp) -> f64 {
        let start = self.midnight(OUTAGE_DAYS_AGO) + 14 * 3600;
        let is_outage = (start..start + 3600).contains(&self.local(at));
        if is_outage && kind.path == FAILING { 30.0 } else { 1.0 }
    }

    fn total_rate(self, at: Timestamp) -> f64 {
        let (day, hour) = (self.day(at), (self.local(at) % DAY) as f64 / 3600.0);
        let daylight = (1.0 - ((hour - 2.0) / 24.0 * TAU).cos()) / 2.0;
        // 1970 started on a Thursday.
        let is_weekend = [2, 3].contains(&(day % 7));
        let weekly = if is_weekend { 0.65 } else { 1.0 };
        let daily = 0.92 + 0.16 * Dice::new(day).fraction();
        let age = self.end.as_unix().saturating_sub(at.as_unix()) as f64;
        let growth = 1.0 - 0.4 * age / (Self::DAYS * DAY) as f64;
        MAX_RATE * (0.2 + 0.8 * daylight) * weekly * daily * growth
    }

    /// Returns the number of the local day.
    pub(super) const fn day(self, at: Timestamp) -> u64 {
        self.local(at) / DAY
    }

    /// Returns the local time in seconds.
    const fn local(self, at: Timestamp) -> u64 {
        at.as_unix().saturating_add_signed(self.utc_offset as i64)
    }

    /// Returns the local time at which the day started, this number of days before the end.
    const fn midnight(self, days_ago: u64) -> u64 {
        (self.day(self.end) - days_ago) * DAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Wednesday at noon.
    const END: Timestamp = Timestamp::from_unix(20_012 * DAY + 12 * 3600);

    const TRAFFIC: Traffic = Traffic::new(END, 0);

    fn hits(range: Range<Timestamp>) -> f64 {
        KINDS.iter().map(|kind| TRAFFIC.expected(kind, &range)).sum()
    }

    fn day(days_ago: u64) -> f64 {
        let midnight = Timestamp::from_unix(TRAFFIC.midnight(days_ago));
        hits(midnight..midnight.plus(DAY))
    }

    #[test]
    fn traffic_rises_by_day_and_falls_at_night_and_on_weekends() {
        let hour = |hour: u64| hits(END.minus((36 - hour) * 3600)..END.minus((35 - hour) * 3600));
        assert!(hour(13) > 3.0 * hour(1), "{} {}", hour(13), hour(1));
        // Last Sunday, and the Tuesday after it.
        assert!(day(3) < 0.85 * day(1), "{} {}", day(3), day(1));
    }

    #[test]
    fn traffic_has_grown_and_a_popular_post_has_many_readers_for_a_day() {
        assert!(day(1) > 1.3 * day(85), "{} {}", day(1), day(85));
        assert!(day(9) > 1.4 * day(16), "{} {}", day(9), day(16));
    }

    #[test]
    fn the_present_continues_the_history() {
        let before = hits(END.minus(600)..END);
        let after = hits(END..END.plus(600));
        assert!((after / before - 1.0).abs() < 0.05, "{before} {after}");
    }
}
