//! Fields that a log or a record does not contain, as opposed to headers that the client did not send.

use counter_core::source::SourceName;
use counter_core::visitor::VisitorKey;
use counter_core::{CounterName, Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Forwarded, Identity, Label};
use counter_log::record::Record;
use counter_log::{Decision, Format, Import, Lines, LogCounter, Parser};

use crate::support::{BOT, BROWSER, clf, name, precision};

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    let labels = [Label::referrer(), Label::browser(), Label::device(), Label::bot(), Label::language()];
    let layer =
        AccessCounterLayer::new(counters.recorder()).facets([Facet::Agent, Facet::Status, Facet::Method]);
    layer.labels(labels).expect("few labels")
}

/// Counts a log. Returns the hits of each of these counters, and the visitors of all requests.
async fn count(format: Format, log: &str, names: &[&str]) -> (Vec<u64>, u64) {
    let mut counters = counters();
    let mut import = Import::new(counters.sources().history(), format, LogCounter::new(&layer(&counters)));
    let open = |position| Ok((position == 0).then(|| Lines::new(log.as_bytes(), 0).finished()));
    let source: SourceName = "log".parse().expect("a name");
    import.count(source, open).await.expect("memory takes all");
    assert_eq!(import.report().malformed(), 0);
    counters.flush().await.expect("memory takes all");
    let names: Vec<CounterName> = names.iter().map(|text| name(text)).collect();
    let stats = counters.stats();
    let hits = stats.lifetimes(&names).await.expect("memory can be read");
    let now = Timestamp::now();
    let visitors =
        stats.uniques(&[name("hits")], precision(86_400), now.minus(86_400)..now.plus(172_800)).await;
    (hits, visitors.expect("memory can be read").visitors)
}

/// Returns lines from five addresses, with a text at the end.
fn lines(rest: &str) -> String {
    let at = clf(Timestamp::now());
    let line = |n| format!("192.0.2.{n} - - [{at}] \"GET /a HTTP/1.1\" 200 7{rest}\n");
    (1..=5).map(line).collect()
}

#[tokio::test]
async fn without_a_field_for_the_user_agent_nobody_is_a_bot() {
    let names = [
        "hits",
        "agent:human",
        "agent:bot",
        "status:2xx",
        "method:GET",
        "label:browser:(not recorded)",
        "label:bot:(not recorded)",
        "label:referrer:(not recorded)",
        "label:language:(not recorded)",
    ];
    assert_eq!(count(Format::common(), &lines(""), &names).await, (vec![5, 0, 0, 5, 5, 5, 5, 5, 5], 5));
    let names =
        ["agent:human", "agent:bot", "label:browser:bot", "label:bot:(other)", "label:referrer:(none)"];
    let not_sent = lines(r#" "-" "-""#);
    assert_eq!(count(Format::combined(), &not_sent, &names).await, (vec![0, 5, 5, 5, 5], 0));
    let sent = lines(&format!(r#" "-" "{BROWSER}""#));
    assert_eq!(count(Format::combined(), &sent, &names).await, (vec![5, 0, 0, 0, 5], 5));
}

#[tokio::test]
async fn without_a_readable_address_requests_count_but_have_no_visitor() {
    let named = lines(&format!(r#" "-" "{BROWSER}""#)).replace("192.0.2.", "host-");
    assert_eq!(count(Format::combined(), &named, &["hits", "agent:human"]).await, (vec![5, 5], 0));
}

#[tokio::test]
async fn without_a_method_or_a_status_there_is_no_facet() {
    let pattern: Format = "%t %U".parse().expect("a pattern");
    let log = format!("[{}] /a\n", clf(Timestamp::now()));
    let names = ["hits", "method:GET", "method:other", "status:2xx", "status:failed"];
    assert_eq!(count(pattern, &log, &names).await, (vec![1, 0, 0, 0, 0], 0));
}

/// Returns the names of the counters of a record, except for the labels.
fn names(fields: &str) -> Vec<String> {
    let counters = counters();
    let mut counter = LogCounter::new(&layer(&counters));
    let record =
        format!(r#"{{"path":"/a","at":{},"address":"192.0.2.1:80"{fields}}}"#, Timestamp::now().as_unix());
    let Ok(Record::Request(request)) = serde_json::from_str(&record) else { panic!("{record}") };
    let Decision::Counted { hits, .. } = request.decide(&mut counter, VisitorKey::random()) else {
        panic!("{record}")
    };
    let names = hits.iter().filter_map(|hit| counters.recorder().name(hit.counter()));
    let mut names: Vec<_> =
        names.map(|name| name.to_string()).filter(|name| !name.starts_with("label:")).collect();
    names.sort();
    names
}

#[test]
fn a_record_has_facets_for_the_fields_that_it_contains() {
    assert_eq!(names(""), ["hits"]);
    assert_eq!(names(r#","user_agent":null"#), ["agent:bot", "hits"]);
    assert_eq!(names(&format!(r#","user_agent":"{BOT}""#)), ["agent:bot", "hits"]);
    let all = format!(r#","user_agent":"{BROWSER}","status":404,"method":"PUT""#);
    assert_eq!(names(&all), ["agent:human", "hits", "method:PUT", "status:4xx"]);
}

#[test]
fn without_the_client_of_a_proxy_its_header_is_not_trusted() {
    let counters = counters();
    let identity = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let layer = AccessCounterLayer::new(counters.recorder()).identity(identity).expect("a daily salt");
    let mut counter = LogCounter::new(&layer).behind(Forwarded::X_FORWARDED_FOR, [10, 0, 0, 1].into());
    let format: Format =
        r#"%h %t "%r" %>s "%{X-Forwarded-For}i" "%{User-Agent}i""#.parse().expect("a pattern");
    let mut parser = Parser::new(format);
    for (client, is_known) in [("192.0.2.1", true), ("client.example", false)] {
        let at = clf(Timestamp::now());
        let line = format!(r#"{client} [{at}] "GET / HTTP/1.1" 200 "198.51.100.7" "{BROWSER}""#);
        let line = parser.parse(line.as_bytes()).expect("it fits").expect("a request");
        let Decision::Counted { hits, .. } = counter.decide(&line, VisitorKey::random()) else {
            panic!("{client}")
        };
        assert_eq!(hits[0] != hits[0].register(None), is_known, "{client}");
    }
}
