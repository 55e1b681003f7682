//! The alerts page and its forms.

use axum::Router;
use axum::body::Body;
use counter_admin::{Access, Options};
use counter_core::{MemoryStore, Timestamp};
use http::{Request, StatusCode, header};

use super::super::site::{ResponseText, encode, response, send};
use super::{TOKEN, Watched, open_access, page, post};

pub(super) async fn post_form(
    router: &Router,
    path: &str,
    form: &str,
    credentials: (&str, &str),
) -> ResponseText {
    let request = Request::post(format!("/admin/stats/alerts/{path}"))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(credentials.0, credentials.1)
        .header("sec-fetch-site", "same-origin");
    response(router, request.body(Body::from(form.to_owned())).expect("an address")).await
}

/// Returns the text of a page, with `AT` instead of times.
pub(super) fn text(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        let (tag, rest) = part.split_once('>').unwrap_or_default();
        text += if tag.starts_with("time ") { " AT" } else { " " };
        text += if tag.starts_with("time ") { "" } else { rest };
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_alerts_page_shows_firing_rules_first_with_values_and_thresholds() {
    let mut watched = Watched::over(MemoryStore::new(), open_access()).await;
    let router = watched.site.router.clone();
    let condition = "/ has more than 10 hits in 1 h, 2 times in a row";
    let errors = "errors status:5xx are more than 5 % of hits for 1 h";
    let fresh = text(&page(&router, "/alerts").await);
    assert!(fresh.contains("No rule is firing."), "{fresh}");
    assert!(fresh.contains(&format!("No data {errors} – – – –")), "{fresh}");
    assert!(fresh.contains("No messages yet"), "{fresh}");
    assert!(fresh.find("errors") < fresh.find("loud"), "{fresh}");

    watched.raise().await;
    let firing_page = page(&router, "/alerts").await;
    let firing = text(&firing_page);
    let row =
        format!("Firing busy &amp; loud {condition} / has 11 hits, above 10 11 hits 10 hits AT AT Mute");
    assert!(firing.contains(&row) && firing.find("loud") < firing.find("errors"), "{firing}");
    let message = "Firing busy &amp; loud / has 11 hits, above 10 AT Delivered AT";
    assert!(firing.contains(message), "{firing}");

    post(&router, &format!("silence?rule={}&seconds=86400", encode("busy & loud"))).await;
    let muted = page(&router, "/alerts").await;
    assert!(firing_page.contains("class=\"status loud\"") && muted.contains("class=\"status muted\""));
    let muted = text(&muted);
    assert!(muted.contains("1 rule is firing. 1 rule is muted."), "{muted}");
    assert!(muted.contains("Firing Muted until AT busy &amp; loud"), "{muted}");

    // The next hour does not have hits.
    watched.watch.check_once(watched.judged.plus(3600)).await.expect("memory answers");
    let resolved = text(&page(&router, "/alerts").await);
    let row = format!("Muted until AT busy &amp; loud {condition} 0 hits 10 hits AT AT");
    assert!(resolved.contains(&row) && resolved.contains("AT Not sent: muted"), "{resolved}");
    post(&router, &format!("silence?rule={}&seconds=0", encode("busy & loud"))).await;
    let ok = text(&page(&router, "/alerts").await);
    assert!(ok.contains(&format!("OK busy &amp; loud {condition} 0 hits 10 hits AT AT")), "{ok}");
}

#[tokio::test]
async fn a_firing_rule_with_a_normal_value_says_when_it_is_resolved() {
    let mut watched = Watched::resolved_after(3, MemoryStore::new(), open_access()).await;
    watched.raise().await;
    let raised = page(&watched.site.router, "/alerts").await;
    assert!(!raised.contains("Back to normal"), "{raised}");
    let hour = watched.judged.as_unix() / 3600 * 3600;
    watched.watch.check_once(watched.judged.plus(3600)).await.expect("memory answers");
    let normal = page(&watched.site.router, "/alerts").await;
    assert!(text(&normal).contains("Firing Back to normal since AT , will be resolved at AT"), "{normal}");
    let (_, times) = normal.split_once("Back to normal").expect("its times");
    let times = times.split("datetime=\"").skip(1).take(2).filter_map(|time| time.split('"').next());
    let times: Vec<_> =
        times.map(|time| time.parse::<jiff::Timestamp>().expect("an instant").as_second()).collect();
    assert_eq!(times, [hour, hour + 3 * 3600].map(|at| i64::try_from(at).expect("small")));
}

#[tokio::test]
async fn a_rule_can_be_muted_until_a_time_in_the_zone_of_the_site() {
    let watched = Watched::over(MemoryStore::new(), open_access()).await;
    let options = Options::new().alerts(watched.watch.alerts()).time_zone("Asia/Tokyo").expect("a zone");
    let stats = watched.site.counters.stats();
    let router =
        Router::new().nest("/admin/stats", counter_admin::router_with(stats, open_access(), options));
    let until = Timestamp::now().as_unix() / 60 * 60 + 7200;
    let local = |unix: u64| {
        let at = jiff::Timestamp::from_second(unix.try_into().expect("small")).expect("an instant");
        at.in_tz("Asia/Tokyo").expect("a zone").strftime("%Y-%m-%dT%H:%M").to_string()
    };
    let fields = |until: &str| format!("rule=errors&until={}", encode(until));
    for (path, text, location, expected) in [
        ("silence", local(until), "/admin/stats/alerts", until),
        ("silence?zone=local", local(until + 60), "/admin/stats/alerts?zone=local", until + 60),
        // The script sends the instant instead.
        ("silence", (until + 120).to_string(), "/admin/stats/alerts", until + 120),
    ] {
        let sent = post_form(&router, path, &fields(&text), ("accept", "text/html")).await;
        assert_eq!(
            (sent.status, sent.headers[header::LOCATION].as_bytes()),
            (StatusCode::SEE_OTHER, location.as_bytes())
        );
        let muted = watched.rule("errors").await["silenced_until"].as_u64().expect("a time");
        // The clock runs between the form and the store.
        assert!((expected..expected + 1800).contains(&muted), "{muted} for {text}");
    }
    for wrong in
        [local(until - 7200 - 60), local(until + 31 * 86_400), "noon".to_owned(), u64::MAX.to_string()]
    {
        let sent = post_form(&router, "silence", &fields(&wrong), ("accept", "text/html")).await;
        assert_eq!(sent.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert!(sent.body.contains("Choose a time within the next 30 days."), "{}", sent.body);
    }
}

#[tokio::test]
async fn the_alerts_page_explains_raised_rules_and_the_forms_match_the_api() {
    let mut watched =
        Watched::over(MemoryStore::new(), Access::bearer(TOKEN).expect("a token").may_silence()).await;
    watched.raise().await;
    let router = watched.site.router.clone();
    let login = send(&router, &format!("/admin/stats/alerts?token={TOKEN}"), None).await;
    assert_eq!(login.headers[header::LOCATION], "/admin/stats/alerts");
    let cookie = login.headers[header::SET_COOKIE].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a session").to_owned();
    let credentials = ("cookie", &*cookie);
    let page = send(&router, "/admin/stats/alerts", Some(credentials)).await;
    for part in [
        "1 rule is firing.",
        "<a href=\"/admin/stats/counter?counter=%2F&#38;period=today\"><bdi>busy &amp; loud</bdi></a>",
        "/ has 11 hits, above 10",
        "Evaluated per hour. Fires after 2 intervals in a row, is resolved after 1 interval.",
        "<td class=\"number\">11 hits</td>\n<td class=\"number\">10 hits</td>",
    ] {
        assert!(page.body.contains(part), "{part} in {}", page.body);
    }
    // An unchanged page should not be sent again.
    let request = Request::get("/admin/stats/alerts").header("cookie", credentials.1);
    let tags: Vec<_> =
        page.body.split("data-tag=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let request = request.header("x-known-parts", tags.join(" "));
    let same = response(&router, request.body(Body::empty()).expect("an address")).await;
    assert_eq!((same.status, &*same.body), (StatusCode::NO_CONTENT, ""));

    let rule = encode("busy & loud");
    let sent = post_form(&router, "silence", &format!("rule={rule}&seconds=3600"), credentials).await;
    assert_eq!(
        (sent.status, &sent.headers[header::LOCATION]),
        (StatusCode::SEE_OTHER, &"/admin/stats/alerts".parse().expect("text"))
    );
    let page = send(&router, "/admin/stats/alerts", Some(credentials)).await.body;
    assert!(page.contains("Unmute"), "{page}");
    assert_eq!(
        post_form(&router, "silence", &format!("rule={rule}&seconds=0"), credentials).await.status,
        303
    );
    let page = send(&router, "/admin/stats/alerts", Some(credentials)).await.body;
    assert!(!page.contains("Unmute"), "{page}");
    assert_eq!(post_form(&router, "test", "", credentials).await.status, 303);
    watched.watch.check_once(watched.judged).await.expect("memory answers");
    let page = text(&send(&router, "/admin/stats/alerts", Some(credentials)).await.body);
    assert!(page.contains("Test test message delivery works AT Delivered AT"), "{page}");
    for (form, status) in [("rule=calm&seconds=60", 404), ("rule=errors&seconds=x", 400), ("", 400)] {
        assert_eq!(post_form(&router, "silence", form, credentials).await.status, status, "{form}");
    }
    // A page on a different site can also submit the form, with the visitor's session.
    for path in ["silence", "test"] {
        let request = Request::post(format!("/admin/stats/alerts/{path}")).header("cookie", credentials.1);
        let request =
            request.header("sec-fetch-site", "cross-site").body(Body::from("rule=errors&seconds=60"));
        assert_eq!(response(&router, request.expect("an address")).await.status, StatusCode::FORBIDDEN);
    }
}
