//! Random requests.

use super::RESPONSE_HEADER;
use crate::random::Random;
use crate::support::{BOT, BROWSER};

/// A request with the expected outcome.
#[derive(Clone, Debug)]
pub(super) struct TestRequest {
    pub(super) head: Vec<u8>,
    pub(super) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Responded {
        has_body: bool,
    },
    /// The connection switches to a different protocol.
    Upgraded,
    /// The client disconnects before the response.
    Aborted,
    /// Rust HTTP servers don't accept this as a request.
    Rejected,
}

impl TestRequest {
    pub(super) fn random(random: &mut Random) -> Self {
        let method = random.one_of(&[
            "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH",
            "PURGE", "PROPFIND",
        ]);
        let target = target(random);
        let mut fate = Fate::Responded { has_body: method != "HEAD" };
        let mut answer = random.one_of(&[
            "200", "200", "200", "201", "204", "206", "301", "302", "304", "400", "401", "404", "405", "410",
            "416", "418", "429", "500", "502", "503",
        ]);
        match random.among(0..40) {
            0 => (fate, answer) = (Fate::Aborted, "none"),
            1 if method == "GET" => (fate, answer) = (Fate::Upgraded, "101"),
            _ if ["204", "304"].contains(&answer) => fate = Fate::Responded { has_body: false },
            _ => {}
        }
        if target.contains('<') || target.contains("?q=\"") {
            fate = Fate::Rejected;
        }
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nHost: www.example.org\r\n{RESPONSE_HEADER}: {answer}\r\n");
        if fate == Fate::Upgraded {
            head += "Connection: upgrade\r\nUpgrade: echo\r\n";
        }
        if method == "POST" {
            head += "Content-Length: 0\r\n";
        }
        if answer == "206" {
            head += "Range: bytes=0-1\r\n";
        }
        headers(random, &mut head);
        Self { head: (head + "\r\n").into_bytes(), fate }
    }
}

fn target(random: &mut Random) -> String {
    let number = random.among(0..40);
    match random.among(0..27) {
        0..5 => format!("/articles/{number}"),
        5 => format!("/articles/{number}/?page={number}"),
        6 => format!("/page-{number}.html"),
        7 => format!("/static/{number}.css"),
        8 => "/signup".to_owned(),
        9 => format!("/api/v1/{number}"),
        10 => "/".to_owned(),
        11 => format!("//articles//{number}"),
        12 => format!("/other/../articles/{number}"),
        13 => format!("/./articles/{number}/."),
        14 => format!("/%61rticles/%3{}", number % 10),
        15 => format!("/articles/{number};version=1"),
        16 => format!("/caf%C3%A9/{number}"),
        17 => format!("/café/{number}"),
        18 => format!("/articles/a%2Fb%3{}", number % 10),
        19 => format!("/search?q=\"{number}\"&b=\\{number}"),
        20 => format!("/{{\"a\":{number}}}"),
        21 => format!("/feed?{number}"),
        22 => format!("/reserved/{number}"),
        23 => format!("/ARTICLES/{number}?a&b=%zz"),
        24 => format!("/search?and=\\{number}^|"),
        25 => format!("http://www.example.org/articles/{number}?absolute"),
        _ => format!("/articles/<{number}>"),
    }
}

fn headers(random: &mut Random, head: &mut String) {
    let agents = [
        BROWSER,
        BROWSER,
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Safari/604.1",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/138.0.0.0 Safari/537.36",
        BOT,
        "curl/8.14.1",
        "say \"hello\" \\ and \t go – é",
        "\\x41\\",
    ];
    let number = random.among(1..200);
    let mut add = |name: &str, value: &str| *head += &format!("{name}: {value}\r\n");
    match random.among(0..12) {
        0 => {}
        1 => add("User-Agent", ""),
        _ => add("User-Agent", random.one_of(&agents)),
    }
    match random.among(0..12) {
        0..3 => {}
        3 => add("X-Forwarded-For", "unknown"),
        4 => add("X-Forwarded-For", &format!("[2001:db8:0:{number:x}::7]:4711")),
        5 => add("X-Forwarded-For", &format!("2001:db8:0:{number:x}::7, 198.51.100.1")),
        6 => add("X-Forwarded-For", &format!("198.51.100.1,203.0.113.{number}:80")),
        7 => {
            add("X-Forwarded-For", "198.51.100.9");
            add("X-Forwarded-For", &format!("203.0.113.{number}"));
        }
        _ => add("X-Forwarded-For", &format!("203.0.113.{number}")),
    }
    match random.among(0..6) {
        0 => add("Referer", &format!("https://{number}.example/\"a\\\"?q=%20")),
        1 => add("Referer", "https://www.example.org/"),
        _ => {}
    }
    if random.among(0..15) == 0 {
        add("Sec-Purpose", random.one_of(&["prefetch", "prefetch;prerender", "other"]));
    }
    match random.among(0..3) {
        0 => add("Accept-Language", random.one_of(&["de-CH, de;q=0.9", "fr", "*"])),
        1 => add("Accept-Language", "en"),
        _ => {}
    }
}
