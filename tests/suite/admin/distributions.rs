//! Percentiles and statuses in the JSON API.

use std::time::Duration;

use counter_admin::Access;
use counter_core::visits::{Bin, Measure, Measured};
use counter_core::{Counters, MemoryStore, Timestamp};
use http::StatusCode;
use serde_json::{Value, json};
use tests::RedisServer;

use super::site::{Site, check, fetch, site};
use crate::support::{precision, store};

/// Measures requests of a counter with these bins.
async fn measure(
    site: &mut Site,
    counter: &str,
    at: Timestamp,
    requests: impl IntoIterator<Item = Vec<Bin>>,
) {
    let (recorder, hits) = (site.recorder(), [site.recorder().counter(counter).hit()]);
    for bins in requests {
        recorder.measure_at(Measured { hits: &hits, bins: &bins }, at);
    }
    site.record(counter, at, 1).await;
}

fn ms(ms: u64) -> Bin {
    Bin::time(Duration::from_millis(ms))
}

#[tokio::test]
async fn percentiles_have_the_documented_shape() {
    let mut site = site();
    let hour = precision(3600).bucket(Timestamp::now()).start;
    measure(&mut site, "/", hour.minus(3600), (0..9).map(|_| vec![ms(20)])).await;
    measure(&mut site, "/", hour, [vec![ms(4000), Bin::size(700)]]).await;
    let (fast, slow) = (ms(20).value(), ms(4000).value());
    let path = format!("percentiles?counter=%2F&precision=3600&from={}&q=0.5,0.9,1", hour.minus(3600));
    let bucket = |start: Timestamp, count, value| json!({"start": start.as_unix(), "count": count, "values": [value, value, value]});
    let expected = json!({
        "counters": ["/"],
        "precision": 3600,
        "from": hour.minus(3600).as_unix(),
        "to": hour.plus(3600).as_unix(),
        "of": "time",
        "unit": "seconds",
        "count": 10,
        "percentiles": [{"q": 0.5, "value": fast}, {"q": 0.9, "value": fast}, {"q": 1.0, "value": slow}],
        "relative_error": Measure::RELATIVE_ERROR,
        "buckets": [bucket(hour.minus(3600), 9, fast), bucket(hour, 1, slow)],
    });
    check(&site.router, &path, expected).await;
    let sizes = fetch(&site.router, &format!("{path}&of=size")).await.json();
    assert_eq!((&sizes["unit"], &sizes["count"]), (&json!("bytes"), &json!(1)));
    assert_eq!(sizes["percentiles"][0]["value"], Bin::size(700).value());
}

#[tokio::test]
async fn percentiles_merge_all_counters_and_have_default_quantiles() {
    let mut site = site();
    let now = Timestamp::now();
    measure(&mut site, "/a", now, (0..98).map(|_| vec![ms(1)])).await;
    measure(&mut site, "/b", now, (0..2).map(|_| vec![ms(900)])).await;
    let from = now.minus(3600);
    let response =
        fetch(&site.router, &format!("percentiles?counter=%2Fa&counter=%2Fb&precision=60&from={from}")).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.body);
    let values = |value: &Value| value["percentiles"].as_array().expect("a list").clone();
    let expected = [(0.5, ms(1)), (0.9, ms(1)), (0.99, ms(900))];
    assert_eq!(values(&response.json()), expected.map(|(q, bin)| json!({"q": q, "value": bin.value()})));
    // If a known counter has no measurements in this range, this must not be an error.
    let empty =
        fetch(&site.router, &format!("percentiles?counter=%2Fa&precision=60&to={}", now.minus(3600))).await;
    assert_eq!(values(&empty.json())[0], json!({"q": 0.5, "value": null}), "{}", empty.body);
}

#[tokio::test]
async fn the_slowest_pages_come_first_with_a_summary() {
    let mut site = site();
    let now = Timestamp::now();
    measure(&mut site, "/fast", now, (0..3).map(|_| vec![ms(1), Bin::size(5000)])).await;
    measure(&mut site, "/slow", now, [vec![ms(100)], vec![ms(4000)]]).await;
    measure(&mut site, "hits", now, [vec![ms(4000)]]).await;
    measure(&mut site, "/unmeasured", now, []).await;
    let query = "slowest?precision=3600&kind=page";
    let response = fetch(&site.router, query).await.json();
    let (low, high) = (ms(100).value(), ms(4000).value());
    let [slow, fast] = &response["slowest"].as_array().expect("a list")[..] else { panic!("{response}") };
    assert_eq!((&slow["counter"], &slow["count"]), (&json!("/slow"), &json!(2)));
    assert_eq!(fast["counter"], "/fast");
    let (sum, squares) = (low + high, low * low + high * high);
    let summary =
        [("min", low), ("max", high), ("sum", sum), ("sum_of_squares", squares), ("mean", sum / 2.0)];
    for (name, expected) in summary {
        // JSON numbers might be rounded in the least significant digit.
        let ratio = slow[name].as_f64().expect("a number") / expected;
        assert!((ratio - 1.0).abs() < 1e-9, "{name} of {slow}");
    }
    let largest = fetch(&site.router, &format!("{query}&of=size&limit=1")).await.json();
    assert_eq!((&largest["unit"], &largest["slowest"][0]["counter"]), (&json!("bytes"), &json!("/fast")));
    assert_eq!(largest["slowest"].as_array().map(Vec::len), Some(1), "{largest}");
    let none = fetch(&site.router, &format!("{query}&to={}", now.minus(86_400))).await.json();
    assert_eq!(none["slowest"], json!([]));
}

#[tokio::test]
async fn statuses_are_counted_by_number() {
    let mut site = site();
    let hour = precision(3600).bucket(Timestamp::now()).start;
    let requests = [200, 404, 200, 499].map(|status| vec![Bin::status(status), Bin::grpc(status / 100)]);
    measure(&mut site, "/", hour, requests).await;
    let path = format!("statuses?counter=%2F&precision=3600&from={hour}");
    let expected = |of: &str, statuses: &[(u16, u64)]| {
        let status = |(status, count): &(u16, u64)| json!({"status": status, "count": count});
        json!({
            "counters": ["/"],
            "precision": 3600,
            "from": hour.as_unix(),
            "to": hour.plus(3600).as_unix(),
            "of": of,
            "count": 4,
            "statuses": statuses.iter().map(status).collect::<Vec<_>>(),
        })
    };
    check(&site.router, &path, expected("status", &[(200, 2), (404, 1), (499, 1)])).await;
    check(&site.router, &format!("{path}&of=grpc"), expected("grpc", &[(2, 2), (4, 2)])).await;
}

#[tokio::test]
async fn invalid_parameters_are_rejected() {
    let mut site = site();
    measure(&mut site, "/", Timestamp::now(), [vec![ms(1)]]).await;
    let many = vec!["0.5"; 21].join(",");
    for (question, status) in [
        ("percentiles?precision=60", 400),
        ("percentiles?counter=%2F", 400),
        ("percentiles?counter=%2F&precision=5", 400),
        ("percentiles?counter=%2F&precision=60&of=status", 400),
        ("percentiles?counter=%2F&precision=60&q=1.1", 400),
        ("percentiles?counter=%2F&precision=60&q=-0.1", 400),
        ("percentiles?counter=%2F&precision=60&q=0.5,", 400),
        ("percentiles?counter=%2F&precision=60&q=NaN", 400),
        ("percentiles?counter=%2F&precision=60&q=1e-3", 400),
        (&format!("percentiles?counter=%2F&precision=60&q={many}"), 400),
        ("percentiles?counter=nobody&precision=60", 404),
        ("statuses?counter=%2F&precision=60&of=time", 400),
        ("statuses?counter=nobody&precision=60", 404),
        ("statuses?counter=%2F&precision=60&from=0", 400),
    ] {
        let response = fetch(&site.router, question).await;
        assert_eq!(response.status.as_u16(), status, "{question}: {}", response.body);
    }
}

#[tokio::test]
async fn without_distributions_the_routes_do_not_exist() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let mut site = Site::of(counters, Access::open());
    site.record("/", Timestamp::now(), 1).await;
    for route in ["percentiles", "statuses"] {
        let response = fetch(&site.router, &format!("{route}?counter=%2F&precision=60")).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{}", response.body);
    }
    assert!(!fetch(&site.router, "").await.body.contains("percentiles"));
}

#[tokio::test]
async fn an_unreadable_key_is_reported_and_the_rest_is_returned() {
    let server = RedisServer::start();
    let mut site = Site::open(store(&server.url()).await);
    let now = Timestamp::now();
    measure(&mut site, "/a", now, [vec![ms(20)]]).await;
    measure(&mut site, "/b", now, [vec![ms(20)]]).await;
    let key = format!("access:bins:3600:/b:{}", precision(3600).bucket(now).start);
    server.command(&["SET", &key, "a text"]);
    let response = fetch(&site.router, "percentiles?counter=%2Fa&counter=%2Fb&precision=3600").await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.body);
    let response = response.json();
    assert_eq!((&response["count"], &response["unreadable"][0]["key"]), (&json!(1), &json!(key)));
}
