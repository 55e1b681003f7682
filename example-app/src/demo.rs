//! Simulated visitors. They send real HTTP requests, to show the dashboard of a busy site.

use std::f64::consts::TAU;
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Length of a simulated day.
pub const DAY: Duration = Duration::from_secs(240);

/// Requests per second around noon. At night, this falls to a fifth.
const NOON_RATE: f64 = 14.0;

/// Number of people. Each has a distinct user agent.
const PERSON_COUNT: u64 = 400;

/// Paths to request. A path that is listed more than once is more likely.
const PATHS: [&str; 30] = [
    "/",
    "/",
    "/",
    "/",
    "/",
    "/",
    "/articles",
    "/articles",
    "/articles",
    "/articles",
    "/articles/1",
    "/articles/1",
    "/articles/1",
    "/articles/2",
    "/articles/2",
    "/articles/3",
    "/search?q=once",
    "/search?q=fold",
    "/search?q=nothing",
    "/download/notes.txt",
    "/slow",
    "/articles/17",
    "/an/old/link",
    "/",
    "/posts",
    "/posts/1",
    "/posts/1",
    "/posts/2",
    "/members",
    "/groups/1",
];

/// Referring pages. A page that is listed more than once is more likely.
const REFERRERS: [&str; 8] = [
    "",
    "",
    "https://search.example/results?q=counter",
    "https://search.example/results?q=once",
    "https://search.example/",
    "https://news.example/item?id=7",
    "https://forum.example/t/12",
    "https://blog.example/counting",
];

/// Preferred languages.
const LANGUAGES: [&str; 5] =
    ["en-GB,en;q=0.9", "en-US,en;q=0.9", "de-CH,de;q=0.9,en;q=0.8", "fr-FR,fr;q=0.9", "ja"];

/// User agents of people, up to the version number.
const BROWSERS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Safari/537.",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Mobile Safari/537.",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.",
];

/// Actions of forum members.
const ACTIONS: [&str; 8] = [
    "/posts/1/like",
    "/posts/2/like",
    "/posts/2/unlike",
    "/posts/3/like",
    "/members/1/follow",
    "/members/2/follow",
    "/groups/1/join",
    "/posts/1/comments",
];

/// Number of forum members.
const MEMBER_COUNT: u64 = 12;

/// User agents of bots.
const BOTS: [&str; 3] = [
    "Mozilla/5.0 (compatible; Examplebot/2.1; +http://bot.example/)",
    "curl/8.5.0",
    "Mozilla/5.0 AppleWebKit/537.36 (compatible; ReadingSpider/1.0)",
];

/// Sends requests to the site at this address until the future is dropped. Failed requests are ignored.
pub async fn visit(site: SocketAddr) {
    let (start, mut dice) = (Instant::now(), Dice(0x9e37_79b9_7f4a_7c15));
    loop {
        let rate = rate(start.elapsed());
        // Visits are independent of each other, so we need exponentially distributed pauses.
        sleep(Duration::from_secs_f64((-(1.0 - dice.fraction()).ln() / rate).min(5.0))).await;
        let request = choose(&mut dice).to_string();
        drop(tokio::spawn(timeout(Duration::from_secs(10), send(site, request))));
    }
}

/// A simulated request.
struct Visit {
    path: &'static str,
    agent: String,
    referrer: &'static str,
    language: &'static str,
    /// The acting member, if this is a POST request.
    member: Option<u64>,
}

/// Writes the HTTP request.
impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, form) = match self.member {
            Some(member) => ("POST", format!("member={member}&text=Me+too.")),
            None => ("GET", String::new()),
        };
        let Self { path, agent, referrer, language, .. } = self;
        let length = form.len();
        let form_type = "application/x-www-form-urlencoded";
        write!(
            f,
            "{method} {path} HTTP/1.1\r\nHost: example\r\nUser-Agent: {agent}\r\nConnection: close\r\n"
        )?;
        if !referrer.is_empty() {
            write!(f, "Referer: {referrer}\r\n")?;
        }
        write!(f, "Accept-Language: {language}\r\n")?;
        write!(f, "Content-Type: {form_type}\r\nContent-Length: {length}\r\n\r\n{form}")
    }
}

/// Returns the requests per second at this time since the start.
fn rate(since: Duration) -> f64 {
    // Start in the morning.
    let hour = since.as_secs_f64() / DAY.as_secs_f64() + 0.3;
    let daylight = (1.0 - (hour * TAU).cos()) / 2.0;
    // Traffic should also fluctuate within the day.
    let wave = 1.0 + 0.25 * (hour * TAU * 9.0).sin();
    NOON_RATE * (0.2 + 0.8 * daylight) * wave
}

fn choose(dice: &mut Dice) -> Visit {
    if dice.below(9) == 0 {
        // Some bots scan for vulnerabilities.
        let path = if dice.below(6) == 0 { "/wp-login.php" } else { PATHS[dice.index(PATHS.len())] };
        let agent = BOTS[dice.index(BOTS.len())].to_owned();
        return Visit { path, agent, referrer: "", language: "", member: None };
    }
    // This makes some people visit often, but most people rarely.
    let person = dice.below(PERSON_COUNT).min(dice.below(PERSON_COUNT));
    let member = (dice.below(15) == 0).then_some(person % MEMBER_COUNT + 1);
    let path = match member {
        Some(_) => ACTIONS[dice.index(ACTIONS.len())],
        None if dice.below(70) == 0 => "/fail",
        None => PATHS[dice.index(PATHS.len())],
    };
    let of = |person: u64, count: usize| usize::try_from(person).unwrap_or_default() % count;
    let agent = format!("{}{person}", BROWSERS[of(person, BROWSERS.len())]);
    let (referrer, language) =
        (REFERRERS[dice.index(REFERRERS.len())], LANGUAGES[of(person / 4, LANGUAGES.len())]);
    Visit { path, agent, referrer, language, member }
}

async fn send(site: SocketAddr, request: String) -> io::Result<()> {
    let mut connection = TcpStream::connect(site).await?;
    connection.write_all(request.as_bytes()).await?;
    copy(&mut connection, &mut sink()).await?;
    Ok(())
}

/// A deterministic xorshift random number generator.
struct Dice(u64);

impl Dice {
    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    const fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 32) % end
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_rises_by_day_and_falls_at_night() {
        let rates: Vec<_> = (0..240).map(|second| rate(Duration::from_secs(second))).collect();
        let min = rates.iter().copied().fold(f64::MAX, f64::min);
        let max = rates.iter().copied().fold(0.0, f64::max);
        assert!((1.0..4.0).contains(&min) && (10.0..20.0).contains(&max), "{min} {max}");
        assert!((rate(DAY * 3) - rate(Duration::ZERO)).abs() < 0.001);
    }

    #[test]
    fn most_visits_are_by_people_and_few_fail() {
        let mut dice = Dice(1);
        let visits: Vec<_> = (0..10_000).map(|_| choose(&mut dice)).collect();
        let part = |matches: fn(&Visit) -> bool| visits.iter().filter(|visit| matches(visit)).count();
        assert!((800..1500).contains(&part(|visit| BOTS.contains(&&*visit.agent))));
        assert!((50..300).contains(&part(|visit| visit.path == "/fail")));
        assert!((400..800).contains(&part(|visit| visit.member.is_some())));
    }
}
