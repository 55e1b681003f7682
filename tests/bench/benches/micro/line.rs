//! From an access log line to hits.

use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Forwarded, Identity, Rule, Rules};
use counter_log::{Decision, Format, LogCounter, Parser};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];

/// Returns 1,000 log lines that are spread over ten seconds.
fn lines(format: &str) -> Vec<String> {
    let line = |n: usize| {
        let (second, agent) = (n / 100 % 60, AGENTS[n % 4]);
        let (a, b) = (n % 250, n / 250);
        match format {
            "json" => format!(
                r#"{{"level":"info","ts":16468614{second:02}.5241,"logger":"http.log.access","msg":"handled request","request":{{"remote_ip":"192.0.{b}.{a}","remote_port":"41342","proto":"HTTP/2.0","method":"GET","host":"www.example.org","uri":"/articles/{n}?page=2","headers":{{"User-Agent":["{agent}"],"Referer":["https://www.example.org/articles"],"Accept-Encoding":["gzip, br"]}}}},"duration":0.000929675,"size":10900,"status":200}}"#
            ),
            _ => format!(
                r#"192.0.{b}.{a} - - [10/Oct/2000:13:55:{second:02} -0700] "GET /articles/{n}?page=2 HTTP/1.1" 200 2326 "https://www.example.org/articles" "{agent}""#
            ),
        }
    };
    (0..1000).map(line).collect()
}

fn counter(counters: &Counters) -> LogCounter {
    let rules =
        Rules::builder().rule(Rule::counter("articles").pattern("/articles/{id}")).exclude("/static/*");
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules.build().expect("rules"));
    let identity = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    LogCounter::new(&layer.identity(identity).expect("days are fine"))
}

fn format(name: &str) -> Format {
    if name == "json" { Format::json() } else { Format::combined() }
}

#[divan::bench(args = ["combined", "json"])]
fn parse_line(bencher: Bencher<'_, '_>, name: &str) {
    let (lines, mut parser) = (lines(name), Parser::new(format(name)));
    bencher.counter(ItemsCount::new(lines.len())).bench_local(|| {
        for line in &lines {
            _ = black_box(parser.parse(black_box(line.as_bytes())));
        }
    });
}

#[divan::bench(args = ["combined", "json"])]
fn parse_and_decide_line(bencher: Bencher<'_, '_>, name: &str) {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let (lines, mut parser, mut counter) = (lines(name), Parser::new(format(name)), counter(&counters));
    bencher.counter(ItemsCount::new(lines.len())).bench_local(|| {
        for line in &lines {
            let line = parser.parse(black_box(line.as_bytes())).expect("a line").expect("a request");
            let decision = counter.decide(&line, VisitorKey::new([7; 16]));
            assert!(matches!(black_box(decision), Decision::Counted { .. }));
        }
    });
}
