//! Label values in the JSON API.

use std::num::NonZeroU32;

use counter_admin::Access;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, PageHit};
use counter_core::{Counters, Timestamp};
use http::StatusCode;
use serde_json::{Value, json};
use tests::{FaultProxy, RedisServer};

use super::site::{Site, check, fetch, send, site, site_at_noon};
use crate::support::{precision, store};

/// Counts label values, with a hit for each value.
async fn count(site: &mut Site, label: &str, at: Timestamp, values: &[Option<&str>]) {
    let recorder = site.recorder();
    let of_label = recorder.label_values(label).expect("a name");
    for value in values {
        let noted = of_label.note(*value, NonZeroU32::MIN);
        recorder.record_at(of_label.counter(noted), None, at, NonZeroU32::MIN);
        site.record("hits", at, 1).await;
    }
}

#[tokio::test]
async fn label_values_have_the_documented_shape_and_are_not_pages() {
    let mut site = site();
    let hour = precision(3600).bucket(Timestamp::now()).start.minus(3600);
    let referrers = [Some("b.example"), Some("a.example"), Some("a.example"), None, Some("(odd)")];
    count(&mut site, "referrer", hour, &referrers).await;
    count(&mut site, "device", hour, &[Some("tv")]).await;
    let value = |value: &str, count: u64| json!({"value": value, "count": count});
    let referrers = |values: &[Value]| {
        let (total, none, other) = (5, 1, 1);
        json!({
            "label": "referrer", "total": total, "none": none, "other": other, "missed": 0, "is_partial": false,
            "values": values
        })
    };
    let devices = json!(
        {"label": "device", "total": 1, "none": 0, "other": 0, "missed": 0, "is_partial": false, "values": [value("tv", 1)]}
    );
    let response = |labels: &[Value]| {
        let (from, to) = (hour.as_unix(), hour.plus(3600).as_unix());
        json!({"precision": 3600, "from": from, "to": to, "labels": labels})
    };
    let range = format!("precision=3600&from={hour}&to={}", hour.plus(3600));
    let both = [devices, referrers(&[value("a.example", 2), value("b.example", 1)])];
    check(&site.router, &format!("labels?{range}"), response(&both)).await;
    let one = [referrers(&[value("a.example", 2)])];
    check(&site.router, &format!("labels?label=referrer&limit=1&{range}"), response(&one)).await;
    for path in [format!("top?kind=all&{range}"), "counters".to_owned(), "export?precision=3600".to_owned()] {
        let response = fetch(&site.router, &path).await;
        assert_eq!(response.status, StatusCode::OK);
        assert!(response.body.contains("hits") && !response.body.contains("label"), "{}", response.body);
    }
    // A label value that is given by name is a normal counter.
    let total = fetch(&site.router, &format!("total?counter=label:referrer:a.example&{range}")).await;
    assert_eq!(total.json()["total"], 2);
}

#[tokio::test]
async fn known_bots_have_an_operator_and_a_purpose() {
    let mut site = site();
    let hour = precision(3600).bucket(Timestamp::now()).start.minus(3600);
    count(&mut site, "bot", hour, &[Some("GPTBot"), Some("GPTBot"), Some("colly"), Some("Futurebot"), None])
        .await;
    count(&mut site, "plan", hour, &[Some("GPTBot")]).await;
    let range = format!("precision=3600&from={hour}&to={}", hour.plus(3600));
    let labels = fetch(&site.router, &format!("labels?{range}")).await.json();
    let expected = [
        json!({"value": "GPTBot", "count": 2, "operator": "OpenAI", "purpose": "AI training"}),
        json!({"value": "Futurebot", "count": 1}),
        json!({"value": "colly", "count": 1, "purpose": "library"}),
    ];
    assert_eq!(labels["labels"][0]["values"], json!(expected));
    assert_eq!(labels["labels"][1]["values"], json!([{"value": "GPTBot", "count": 1}]));
}

#[tokio::test]
async fn the_panel_groups_bots_by_purpose() {
    let mut site = site_at_noon();
    let yesterday = Timestamp::now().minus(86_400);
    let bots = ["GPTBot", "GPTBot", "ClaudeBot", "Googlebot", "Futurebot"].map(Some);
    count(&mut site, "bot", yesterday, &bots).await;
    count(&mut site, "bot", yesterday, &[None, Some("()")]).await;
    let page = send(&site.router, "/admin/stats?period=yesterday", None).await.body;
    let panel = page.split_once("id=\"label-bot\"").expect("a panel").1;
    let (panel, _) = panel.split_once("</section>").expect("its end");
    let mut rest = panel;
    for part in [
        "AI training<",
        ">3<",
        "GPTBot<",
        "OpenAI<",
        ">2<",
        "ClaudeBot<",
        "Search engine<",
        "Googlebot<",
        "Other<",
        "Futurebot<",
        "1 by other bots; 1 by people.",
    ] {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part} in {rest} of {panel}")).1;
    }
}

#[tokio::test]
async fn a_panel_without_values_explains_where_the_hits_are() {
    let mut site = site_at_noon();
    let yesterday = Timestamp::now().minus(86_400);
    count(&mut site, "campaign", yesterday, &[Some("()"), Some("()"), None]).await;
    let page = send(&site.router, "/admin/stats?period=yesterday", None).await.body;
    let panel = page.split_once("id=\"label-campaign\"").expect("a panel").1;
    let (panel, _) = panel.split_once("</section>").expect("its end");
    assert!(panel.contains("1 without a value; 2 with rare or invalid values."), "{panel}");
    assert!(panel.contains("No value to show") && !panel.contains("No data yet"), "{panel}");
}

#[tokio::test]
async fn values_are_compared_with_the_previous_period_and_have_no_visitors() {
    let mut site = site_at_noon();
    let [yesterday, before, earlier] = [1, 2, 3].map(|days| Timestamp::now().minus(days * 86_400));
    count(&mut site, "referrer", earlier, &[Some("a.example"), Some("b.example")]).await;
    count(&mut site, "referrer", before, &[Some("a.example"), Some("a.example"), Some("b.example")]).await;
    count(&mut site, "referrer", yesterday, &[Some("a.example"), Some("b.example"), Some("b.example")]).await;
    let page = send(&site.router, "/admin/stats?period=yesterday", None).await.body;
    let panel = page.split_once("id=\"label-referrer\"").expect("a panel").1;
    let changes: Vec<_> = panel.split("class=\"change ").skip(1).take(2).collect();
    assert!(changes[0].starts_with("up\">+100 %<") && changes[1].starts_with("down\">−50 %<"), "{changes:?}");
    let own = send(
        &site.router,
        "/admin/stats/counter?counter=label%3Areferrer%3Aa.example&period=yesterday",
        None,
    )
    .await
    .body;
    assert!(own.contains("id=\"card-total\"") && !own.contains("id=\"card-people\""), "{own}");
}

/// Counts requests of pages with referrers, at the current time.
async fn count_pages(site: &mut Site, requests: &[(&str, &str)]) {
    let recorder = site.recorder();
    let referrers = recorder.label_values("referrer").expect("a name").by_page();
    for (page, referrer) in requests {
        let noted = referrers.note(Some(referrer), NonZeroU32::MIN);
        let view = PageHit::new(recorder.counter("hits").hit(), Agent::Human);
        recorder.page_hit(PageHit { page: Some(recorder.counter(page)), labels: &[noted], ..view });
    }
    site.record("/b", Timestamp::now(), 1).await;
}

#[tokio::test]
async fn the_values_of_a_page_and_the_pages_of_a_value_add_up() {
    let mut site = site();
    let requests = [("/a", "x.example"), ("/a", "x.example"), ("/a", "y.example"), ("/b", "x.example")];
    count_pages(&mut site, &requests).await;
    let of_page = async |path: &str| {
        let mut answer = fetch(&site.router, path).await.json();
        answer["labels"].take()
    };
    let value = |value: &str, count: u64| json!({"value": value, "count": count});
    let of_a = json!([{
        "label": "referrer", "counter": "/a", "total": 3, "none": 0, "other": 0, "missed": 0, "is_partial": false,
        "values": [value("x.example", 2), value("y.example", 1)]
    }]);
    assert_eq!(of_page("labels?label=referrer&counter=/a&precision=86400").await, of_a);
    assert_eq!(of_page("labels?counter=/a&precision=86400").await, of_a);
    // A hit without labels is the rest of the page.
    let of_b = of_page("labels?label=referrer&counter=/b&precision=86400").await;
    assert_eq!((&of_b[0]["total"], &of_b[0]["other"]), (&json!(2), &json!(1)));
    assert_eq!(of_page("labels?counter=/c&precision=86400").await, json!([]));
    let pages =
        fetch(&site.router, "labels/pages?label=referrer&value=x.example&precision=86400").await.json();
    assert_eq!(pages["pages"], json!([{"counter": "/a", "count": 2}, {"counter": "/b", "count": 1}]));
    assert_eq!((&pages["total"], &pages["other"], &pages["missed"]), (&json!(3), &json!(0), &json!(0)));
}

#[tokio::test]
async fn a_page_shows_its_values_and_a_value_shows_its_pages() {
    let mut site = site_at_noon();
    count_pages(&mut site, &[("/a", "x.example"), ("/a", "y.example"), ("/b", "x.example")]).await;
    let panel = async |counter: &str, id: &str| {
        let address = format!("/admin/stats/counter?counter={counter}&period=today");
        let page = send(&site.router, &address, None).await.body;
        let (_, panel) =
            page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {page}"));
        panel.split_once("</section>").expect("its end").0.to_owned()
    };
    let referrers = panel("/a", "label-referrer").await;
    let link = "counter=label%3Areferrer%3Ax.example";
    assert!(referrers.contains("y.example") && referrers.contains(link), "{referrers}");
    let pages = panel("label:referrer:x.example", "pages").await;
    assert!(pages.contains("counter=%2Fa") && pages.contains("counter=%2Fb"), "{pages}");
    assert!(!panel("/b", "label-referrer").await.contains("y.example"));
    let page = send(&site.router, "/admin/stats/counter?counter=hits&period=today", None).await.body;
    assert!(!page.contains("class=\"panels\""), "{page}");
}

#[tokio::test]
async fn invalid_parameters_are_rejected() {
    let site = site();
    for (question, status) in [
        ("labels", 400),
        ("labels?precision=7", 400),
        ("labels?precision=60&label=", 200),
        ("labels?precision=60&label=Referrer", 400),
        ("labels?precision=60&label=a:b", 400),
        ("labels?precision=60&limit=0", 400),
        ("labels?precision=60&label=nothing", 200),
        ("labels?precision=60&counter=", 400),
        ("labels?precision=60&counter=/nothing", 200),
        ("labels/pages?precision=60&label=referrer&value=nothing", 200),
        ("labels/pages?precision=60&label=referrer", 400),
        ("labels/pages?precision=60&value=a", 400),
        ("labels/pages?precision=60&label=a&label=b&value=a", 400),
        ("labels/pages?precision=60&label=a&value=%0A", 400),
        (&format!("labels/pages?precision=60&label=a&value={}", "a".repeat(199)), 400),
        (&format!("labels?precision=60{}", "&label=a".repeat(17)), 400),
    ] {
        let response = fetch(&site.router, question).await;
        assert_eq!(response.status, status, "{question}: {}", response.body);
    }
}

#[tokio::test]
async fn the_overview_with_all_labels_needs_at_most_six_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let counters = async || {
        let counters = Counters::builder(store(&proxy.url()).await).build();
        counters.expect("the defaults are fine")
    };
    let mut counting = Site::of(counters().await, Access::open());
    let (recorder, now) = (counting.recorder(), Timestamp::now());
    let known = ["browser", "campaign", "device", "language", "referrer"];
    for label in known.into_iter().chain(["plan", "tenant", "theme"]) {
        let values = recorder.label_values(label).expect("a name");
        for n in 0..1500 {
            let noted = values.note(Some(&format!("value {n}")), NonZeroU32::MIN);
            recorder.record_at(values.counter(noted), None, now, NonZeroU32::MIN);
        }
    }
    counting.record("hits", now, 1500).await;
    // An instance that does not count labels must find the three custom labels in the store.
    let reading = Site::of(counters().await, Access::open());
    for site in [&counting, &reading] {
        let call = async || {
            let response = send(&site.router, "/admin/stats", None).await;
            if response.status == StatusCode::OK {
                let page = &response.body;
                assert!(page.contains("<summary class=\"button\">Today</summary>"), "{page}");
                assert_eq!(page.matches("<ol id=\"label-").count(), 8, "{page}");
            }
            response.status == StatusCode::OK
        };
        let fewest = proxy.fewest_round_trips(6, call).await;
        assert!(fewest <= 6, "{fewest}");
    }
}

#[tokio::test]
async fn people_of_values_are_known_if_the_label_counts_them() {
    let mut site = site_at_noon();
    let recorder = site.recorder();
    let [sources, plans] = ["source", "plan"].map(|label| recorder.label_values(label).expect("a name"));
    let sources = sources.people();
    for (person, source) in [(1, Some("Google")), (1, Some("Google")), (2, Some("Google")), (3, None)] {
        recorder.page_hit(PageHit {
            labels: &[sources.note(source, NonZeroU32::MIN), plans.note(Some("free"), NonZeroU32::MIN)],
            ..PageHit::new(
                recorder.counter("hits").hit().visitor(VisitorKey::new([7; 16]).visitor(&[&[person]])),
                Agent::Human,
            )
        });
    }
    site.counters.flush().await.expect("the store takes it");
    let router = site.router.clone();
    let labels = async |question: &str| fetch(&router, &format!("labels?{question}")).await;
    let top = labels("precision=86400&people=true").await;
    assert_eq!(top.status, StatusCode::OK, "{}", top.body);
    let of = |top: &Value, label: usize| {
        (top["labels"][label]["none_people"].clone(), top["labels"][label]["values"].clone())
    };
    let top = top.json();
    assert_eq!(top["salt_epoch"], 86_400);
    // The label `plan` does not count people, which is not the same as nobody.
    assert_eq!(of(&top, 0), (json!(0), json!([{"value": "free", "count": 4, "people": null}])));
    let kind = json!([{"value": "Google", "count": 3, "people": 2, "kind": "search"}]);
    assert_eq!(of(&top, 1), (json!(1), kind));
    // Hits before people were counted.
    let days_ago = |days: u64| Timestamp::now().minus(86_400 * days);
    let google = recorder.label_values("source").expect("a name");
    let noted = google.counter(google.note_at(Some("Google"), days_ago(3), NonZeroU32::MIN));
    recorder.record_at(noted, None, days_ago(3), NonZeroU32::MIN);
    site.counters.flush().await.expect("the store takes it");
    let since =
        labels("precision=86400&label=source&people=true").await.json()["labels"][0]["people_since"].as_u64();
    assert!(since.is_some_and(|since| since > days_ago(1).as_unix()), "{since:?}");
    let today = format!("precision=86400&label=source&people=true&from={}", Timestamp::now().as_unix());
    assert!(labels(&today).await.json()["labels"][0].get("people_since").is_none());

    let without = labels("precision=86400&label=source").await.json();
    assert!(without["labels"][0].get("none_people").is_none());

    for (question, parameter) in [
        ("precision=3600&people=true", "precision"),
        ("precision=86400&people=yes", "people"),
        ("precision=86400&people=true&counter=/", "counter"),
    ] {
        let refused = labels(question).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{question}: {}", refused.body);
        assert_eq!(refused.json()["parameter"], parameter, "{question}: {}", refused.body);
    }
    for counter in ["view:hits", "label:plan@:/+%3D+free"] {
        let refused = fetch(&site.router, &format!("uniques?precision=86400&counter={counter}")).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.body);
        assert_eq!(refused.json()["parameter"], "counter", "{}", refused.body);
    }
}
