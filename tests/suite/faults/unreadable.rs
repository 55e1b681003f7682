//! Tests for Redis keys with unexpected contents, either instead of counts or in addition to counts.

use axum::Router;
use counter_admin::Access;
use counter_core::stores::Shards;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, PageHit};
use counter_core::{CounterName, Counters, Recorder, RedisStore, Stats, Timestamp};
use http::StatusCode;
use serde_json::{Value, json};
use tests::RedisServer;

use crate::admin::site::{ResponseText, card, fetch, send};
use crate::support::{name, precision, store};

/// A site on Redis with hits for `hits`, `/a` and `/b`.
struct Site {
    redis: RedisServer,
    counters: Counters,
    router: Router,
    now: Timestamp,
}

/// Pages which either list the counters or show a counter other than `/a`.
const PAGES: [&str; 10] = [
    "",
    "?counter=%2Fa&counter=%2Fb&show=people&forecast=1&period=5d&by=hour",
    "/list?sort=lifetime",
    "/list?sort=people",
    "/list?sort=change",
    "/parts",
    "/counter?counter=%2Fa&show=people&forecast=1&period=5d&by=hour",
    "/counter?counter=%2Fb",
    "/counter/parts?counter=%2Fa",
    "/metrics",
];

impl Site {
    async fn new() -> Self {
        let redis = RedisServer::start();
        let mut counters =
            Counters::builder(store(&redis.url()).await).build().expect("the defaults are fine");
        let (recorder, now) = (counters.recorder(), Timestamp::now());
        let visitor = VisitorKey::new([7; 16]).visitor(&[b"somebody"]);
        for (page, hits) in [("hits", 5), ("/a", 2), ("/b", 3)] {
            for _ in 0..hits {
                recorder.record_at(recorder.counter(page), Some(visitor), now, std::num::NonZeroU32::MIN);
            }
        }
        counters.flush().await.expect("Redis accepts it");
        let router =
            Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), Access::open()));
        Self { redis, counters, router, now }
    }

    fn stats(&self) -> Stats {
        self.counters.stats()
    }

    fn recorder(&self) -> Recorder {
        self.counters.recorder()
    }

    /// Returns the field of the current bucket.
    fn field(&self, width: u32) -> String {
        precision(width).bucket(self.now).start.to_string()
    }

    async fn assert_all_pages_work(&self, why: &str) {
        for path in PAGES {
            let response = send(&self.router, &format!("/admin/stats{path}"), None).await;
            assert_eq!(response.status, StatusCode::OK, "{path} where {why}: {}", response.body);
        }
    }

    async fn page(&self, path: &str) -> String {
        send(&self.router, &format!("/admin/stats{path}"), None).await.body
    }

    async fn fetch(&self, query: &str) -> ResponseText {
        fetch(&self.router, query).await
    }

    /// Requests a JSON response.
    async fn json(&self, query: &str) -> Value {
        let response = self.fetch(query).await;
        assert_eq!(response.status, StatusCode::OK, "{query}: {}", response.body);
        response.json()
    }

    /// Returns the entries of a ranking.
    async fn top(&self, width: u32) -> Value {
        self.json(&format!("top?kind=all&precision={width}")).await["top"].clone()
    }
}

/// Returns the text of a row in the table of pages: visitors, hits, change, share and all hits.
fn row_of(page: &str, counter: &str) -> String {
    let rows = page.split_once("id=\"rows\"").expect("a table").1;
    let rows = rows.split_once("</tbody>").expect("its end").0;
    let row = rows.split("</tr>").find(|row| row.contains(&format!("<span>{counter}</span>")));
    let texts = row.expect("a row").split('<').filter_map(|part| Some(part.split_once('>')?.1));
    texts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_key_of_the_wrong_type_affects_only_its_part_of_a_page() {
    let site = Site::new().await;
    for width in [1, 5, 60, 300, 3600, 18_000, 86_400] {
        site.redis.command(&["DEL", &format!("access:count:{width}:/a")]);
        site.redis.command(&["SET", &format!("access:count:{width}:/a"), "not a hash"]);
    }
    site.assert_all_pages_work("a key has another type").await;

    let page = site.page("").await;
    assert!(page.contains("access:count:86400:/a (WRONGTYPE"), "the key is named: {page}");
    let top = site.json("top?kind=all&precision=86400").await;
    assert_eq!(top["top"], json!([{"counter": "hits", "count": 5}, {"counter": "/b", "count": 3}]));
    assert_eq!(top["unreadable"][0]["key"], "access:count:86400:/a");

    let several = site.json("series?counter=%2Fa&counter=%2Fb&precision=86400&fill=zero").await;
    assert_eq!(several["series"][0]["samples"], json!([]), "an unknown bucket is not 0");
    assert_eq!(several["series"][0]["unreadable"]["key"], "access:count:86400:/a");
    assert_eq!(
        several["series"][1]["samples"].as_array().and_then(|all| all.last()).expect("today")["count"],
        3
    );
    let one = site.fetch("series?counter=%2Fa&precision=86400").await;
    assert_eq!(one.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(one.body.contains("access:count:86400:/a"), "{}", one.body);

    let (field, export) = (site.field(86_400), site.fetch("export?precision=86400").await);
    let rows =
        ["\"/a\",86400,,".to_owned(), format!("\"/b\",86400,{field},3"), format!("\"hits\",86400,{field},5")];
    assert_eq!(export.body, format!("counter,precision,start,count\r\n{}\r\n", rows.join("\r\n")));
    let export = site.fetch("export?precision=86400&format=ndjson").await;
    let first: Value = serde_json::from_str(export.body.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first, json!({"counter": "/a", "precision": 86_400, "start": null, "count": null}));
}

#[tokio::test]
async fn a_non_numeric_field_affects_only_its_bucket() {
    let site = Site::new().await;
    let day = site.field(86_400);
    for junk in ["abc", "-5", "1e20", ""] {
        site.redis.command(&["HSET", "access:count:86400:/a", &day, junk]);
        site.redis.command(&["HSET", "access:count:86400:/b", "abc", junk]);
        site.assert_all_pages_work(&format!("a count is {junk:?}")).await;
        let entries = json!([{"counter": "hits", "count": 5}, {"counter": "/b", "count": 3}]);
        assert_eq!(site.top(86_400).await, entries, "{junk:?}");

        let series = site.json("series?counter=%2Fa&precision=86400").await;
        let unreadable = &series["unreadable"];
        assert_eq!(
            (&series["samples"], &unreadable["buckets"]),
            (&json!([]), &json!([day.parse::<u64>().ok()]))
        );
        assert_eq!(unreadable["key"], "access:count:86400:/a");
        let filled = site.json("series?counter=%2Fa&precision=86400&fill=zero").await;
        assert_eq!(filled["samples"].as_array().map(Vec::len), Some(119), "all but one of 120");
        let total = site.fetch("total?counter=%2Fa&precision=86400").await;
        assert_eq!(total.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(total.body.contains("access:count:86400:/a"), "{}", total.body);

        // If a field is not a bucket, it should not affect any bucket.
        let series = site.json("series?counter=%2Fb&precision=86400").await;
        assert_eq!(series["samples"], json!([{"start": day.parse::<u64>().ok(), "count": 3}]));
        assert_eq!(series["unreadable"]["key"], "access:count:86400:/b");
        let sums = [
            site.json("total?counter=%2Fb&precision=86400").await,
            site.json("total?counter=%2Fb&precision=3600").await,
        ];
        assert_eq!(sums.map(|sum| sum["total"].clone()), [json!(3), json!(3)]);

        // Small numbers of buckets are read individually.
        let from = format!("series?counter=%2Fa&precision=86400&from={day}");
        assert_eq!(site.json(&from).await["unreadable"]["buckets"], json!([day.parse::<u64>().ok()]));
        let page = site.page("?period=7d").await;
        assert!(page.contains("access:count:86400:/a"), "{junk:?}: {page}");
        for (counter, row) in [("/a", "/a 1 – – 2 +"), ("/b", "/b 1 3 – 3 +")] {
            assert_eq!(row_of(&page, counter), row, "{junk:?}: {page}");
        }
        let page = site.page("/counter?counter=%2Fa&period=7d").await;
        let shown = [("total", "Hits –"), ("part", "Share of all hits –"), ("lifetime", "Hits, all time 2")];
        for (id, shown) in shown {
            assert_eq!(card(&page, id), shown, "{junk:?}: {page}");
        }
        let badge = site.page("/sparkline.svg?counter=%2Fa&precision=86400").await;
        assert!(badge.contains("<svg"), "{badge}");
    }
}

#[tokio::test]
async fn a_non_numeric_total_does_not_affect_other_totals() {
    let site = Site::new().await;
    for junk in ["abc", "-5", "1e20"] {
        site.redis.command(&["HSET", "access:total", "/a", junk]);
        site.assert_all_pages_work(&format!("a total is {junk:?}")).await;
        let counters = site.json("counters").await;
        let lifetimes: Vec<_> = counters["counters"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["lifetime"].clone())
            .collect();
        assert_eq!(lifetimes, [json!(null), json!(3), json!(5)]);
        assert_eq!(counters["unreadable"][0]["key"], "access:total");
        let lifetimes = site.json("lifetimes?counter=%2Fa&counter=%2Fb").await;
        let expected = json!([{"counter": "/a", "total": null}, {"counter": "/b", "total": 3}]);
        assert_eq!(lifetimes["lifetimes"], expected);
        let metrics = site.page("/metrics").await;
        for line in [
            "access_counter_lifetime_hits_total{counter=\"/b\"} 3",
            "access_counter_lifetime_hits_total{counter=\"hits\"} 5",
            "access_counter_lifetimes_complete 0",
            "access_counter_unreadable 1",
            "# unreadable: \"access:total\":",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        assert!(!metrics.contains("counter=\"/a\""), "{metrics}");
    }
    site.redis.command(&["DEL", "access:total"]);
    site.redis.command(&["SET", "access:total", "x"]);
    site.assert_all_pages_work("the totals have another type").await;
    assert!(site.page("/metrics").await.contains("access_counter_store_up 1"));
}

#[tokio::test]
async fn invalid_list_members_do_not_hide_counters() {
    let site = Site::new().await;
    let add = |member: &[u8]| site.redis.command(&[b"ZADD", b"access:known:".as_slice(), b"0", member]);
    // These sort before any name and do not fit into a page.
    for number in 0..3000 {
        add(&[b"86400:\x01\xff".as_slice(), number.to_string().as_bytes()].concat());
        add(&[b"60:\x02".as_slice(), number.to_string().as_bytes()].concat());
    }
    add(&[b"86400:".as_slice(), "x".repeat(300).as_bytes()].concat());
    add(b"86400:");
    site.assert_all_pages_work("the list has members that are no counters").await;
    let counters = site.json("counters?limit=2").await;
    assert_eq!((&counters["counters"][0]["counter"], &counters["next"]), (&json!("/a"), &json!("/b")));
    assert_eq!(counters["unreadable"][0]["key"], "access:known:");
    assert_eq!(site.top(86_400).await.as_array().map(Vec::len), Some(3));
    let export = site.fetch("export?precision=86400").await;
    assert_eq!(export.body.lines().count(), 4, "{}", export.body);
    let metrics = site.page("/metrics").await;
    assert!(metrics.contains("access_counter_lifetime_hits_total{counter=\"hits\"} 5"), "{metrics}");
    assert!(site.page("").await.contains("access:known:"));
}

#[tokio::test]
async fn counters_are_readable_by_name_without_the_list() {
    let site = Site::new().await;
    site.redis.command(&["DEL", "access:known:"]);
    site.redis.command(&["SET", "access:known:", "x"]);
    site.assert_all_pages_work("the list has another type").await;
    assert!(site.page("").await.contains("access:known: (WRONGTYPE"));
    assert_eq!(site.json("total?counter=%2Fa&precision=86400").await["total"], 2);
    assert_eq!(site.json("series?counter=%2Fnone&precision=86400").await["samples"], json!([]));
}

#[tokio::test]
async fn an_unreadable_list_does_not_affect_other_shards() {
    let redis = RedisServer::start();
    let shards = Shards::try_from(4).expect("between 1 and 1024");
    let store = RedisStore::builder().shards(shards).connect(&redis.url()).await.expect("an address");
    let mut counters = Counters::builder(store).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    let names: Vec<_> = (0..40).map(|number| name(&format!("/{number}"))).collect();
    for name in &names[..20] {
        recorder.record(recorder.counter(name), None);
    }
    counters.flush().await.expect("Redis accepts it");
    redis.command(&["DEL", "{access:2}known:"]);
    redis.command(&["SET", "{access:2}known:", "x"]);
    // This simulates another process that has not counted anything itself.
    let store = RedisStore::builder().shards(shards).connect(&redis.url()).await.expect("an address");
    let stats = Counters::builder(store).build().expect("the defaults are fine").stats();
    let contained = stats.contains_counters(&names).await.expect("Redis answers");
    assert_eq!(contained.len(), names.len());
    assert!(contained.iter().any(Result::is_err) && contained.iter().any(Result::is_ok), "{contained:?}");
    for (number, (name, contained)) in names.iter().zip(contained).enumerate() {
        match contained {
            Ok(contained) => assert_eq!(contained, number < 20, "{name}"),
            Err(unreadable) => assert_eq!(unreadable.key, "{access:2}known:", "{name}"),
        }
    }
}

#[tokio::test]
async fn a_visitor_key_of_the_wrong_type_does_not_affect_other_counters() {
    let site = Site::new().await;
    for width in [3600, 86_400] {
        let key = |counter: &str| format!("access:unique:{width}:{counter}:{}", site.field(width));
        for (counter, junk) in [("/a", &["LPUSH", "x"]), ("hits", &["SET", "x"])] {
            site.redis.command(&["DEL", &key(counter)]);
            site.redis.command(&[junk[0], &key(counter), junk[1]]);
        }
    }
    site.assert_all_pages_work("visitors have another type").await;
    let (stats, day) = (site.stats(), precision(86_400));
    let range = site.now.minus(2 * 86_400)..site.now.plus(1);
    let each = stats
        .uniques_by_counter(&[name("/a"), name("/b"), name("hits")], day, range)
        .await
        .expect("readable");
    assert_eq!(each[1].as_ref().map(|uniques| uniques.visitors), Ok(1));
    assert!(each[0].is_err() && each[2].is_err(), "{each:?}");
    for counter in ["%2Fa", "hits"] {
        // If the key is a list, MGET would return nil.
        let response = site.fetch(&format!("uniques?counter={counter}&counter=%2Fb&precision=86400")).await;
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE, "{}", response.body);
        assert!(response.body.contains("access:unique:86400:"), "{}", response.body);
    }
    assert_eq!(site.json("uniques?counter=%2Fb&precision=86400").await["uniques"], 1);
}

#[tokio::test]
async fn a_misaligned_field_is_ignored() {
    let mut site = Site::new().await;
    let (recorder, now) = (site.recorder(), precision(60).bucket(site.now).start);
    let counter = recorder.counter("old");
    for minute in 0..100 {
        recorder.record_at(counter, None, now.minus(60 * minute), std::num::NonZeroU32::MIN);
    }
    site.counters.flush().await.expect("Redis accepts it");
    for foreign in
        [now.minus(60 * 90).plus(7).to_string(), format!("0{}", now.minus(60 * 5)), format!("+{now}")]
    {
        site.redis.int(&["HSET", "access:count:60:old", &foreign, "1000"]);
    }
    // Read both the full range and a small range, because small numbers of buckets are read individually.
    for minutes in [100, 20] {
        let range = now.minus(60 * (minutes - 1))..now.plus(60);
        let series = site.stats().series(&name("old"), precision(60), range).await.expect("readable");
        let sum: u64 = series.zero_filled().map(|sample| sample.count).sum();
        assert_eq!((series.total(), sum), (Ok(minutes), minutes));
        assert_eq!(series.zero_filled().count() as u64, minutes);
    }
}

#[tokio::test]
async fn forgetting_reports_that_pairs_may_be_left() {
    let redis = RedisServer::start();
    let shards = Shards::try_from(16).expect("between 1 and 1024");
    let store = RedisStore::builder().shards(shards).connect(&redis.url()).await.expect("an address");
    let mut counters = Counters::builder(store).build().expect("the defaults are fine");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let plans = recorder.label_values("plan").expect("a name").by_page();
    let pair = |page: &str| CounterName::of_pair("plan", page, "pro").expect("a short name");
    let pages: Vec<_> = (0..8).map(|number| format!("/{number}")).collect();
    for page in &pages {
        let noted = plans.note(Some("pro"), std::num::NonZeroU32::MIN);
        let page = Some(recorder.counter(page));
        let hit = recorder.counter("hits").hit();
        recorder.page_hit(PageHit { page, labels: &[noted], ..PageHit::new(hit, Agent::Human) });
    }
    counters.flush().await.expect("Redis accepts it");
    let total = |shard: u32| format!("{{access:{shard}}}total");
    let contains = |shard, name: &str| redis.int(&["HEXISTS", &total(shard), name]) == 1;
    let value = (0..16).find(|shard| contains(*shard, "label:plan:pro")).expect("it was counted");
    let mut others = pages.iter().map(|page| (page, (0..16).find(|shard| contains(*shard, &pair(page)))));
    let (page, shard) = others.find(|(_, shard)| *shard != Some(value)).expect("there are several shards");
    let shard = shard.expect("it was counted");
    redis.command(&["RENAME", &total(shard), "away"]);
    redis.command(&["SET", &total(shard), "x"]);
    let error = stats.forget(&name("label:plan:pro")).await.expect_err("a list is unreadable");
    let words = format!("{error:?}");
    assert!(words.contains(&total(shard)) && words.contains("pairs of this counter may be left"), "{words}");
    // Other pairs are forgotten anyway.
    let readable = (0..16).filter(|other| *other != shard);
    let left = readable.filter(|shard| pages.iter().any(|page| contains(*shard, &pair(page)))).count();
    assert_eq!(left, 0);
    redis.command(&["RENAME", "away", &total(shard)]);
    assert!(contains(shard, &pair(page)));
    stats.forget(&name("label:plan:pro")).await.expect("everything is readable");
    assert!(!contains(shard, &pair(page)));
}
