//! Goals in the API and on the dashboard, and the permission to mark them.

use axum::Router;
use axum::body::Body;
use counter_admin::{Access, Options};
use counter_alert::goal::Goals;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Timestamp};
use http::{Method, Request, StatusCode, header};
use serde_json::json;

use super::site::{ResponseText, fetch, request, response, send};

const GOALS: &str = "/admin/stats/api/goals";

fn router(counters: &Counters, store: &MemoryStore, access: Access) -> Router {
    let options = Options::new().goals(Goals::new(store.clone()));
    Router::new().nest("/admin/stats", counter_admin::router_with(counters.stats(), access, options))
}

async fn change(router: &Router, method: Method, question: &str) -> ResponseText {
    request(router, method, &format!("{GOALS}?{question}"), None).await
}

#[tokio::test]
async fn a_goal_is_marked_read_and_removed() {
    let store = MemoryStore::new();
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let router = router(&counters, &store, Access::open().may_note());
    // If a new day starts now, the range has both days.
    let today = Timestamp::now().as_unix() / 86_400 * 86_400;
    let recorder = counters.recorder();
    for (number, counter) in
        [(1, "hits"), (2, "hits"), (3, "hits"), (4, "hits"), (1, "signups"), (2, "signups")]
    {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&[number]]);
        recorder.record(recorder.counter(counter), Some(visitor));
    }
    counters.flush().await.expect("memory does not fail");

    for text in ["Sign+up", "Signed+up"] {
        let marked = change(&router, Method::POST, &format!("counter=signups&name={text}")).await;
        assert_eq!(marked.status, StatusCode::OK, "{}", marked.body);
        assert_eq!(marked.json(), json!({"counter": "signups", "name": text.replace('+', " ")}));
    }
    let found = fetch(&router, &format!("goals?precision=86400&from={today}")).await;
    assert_eq!(found.status, StatusCode::OK, "{}", found.body);
    let found = found.json();
    assert_eq!(found["from"], today);
    assert_eq!(
        found["goals"],
        json!([{
            "counter": "signups", "name": "Signed up", "before": null,
            "now": {"hits": 2, "people": 2, "conversion": 0.5, "is_upper_bound": false},
        }])
    );
    let removed = change(&router, Method::DELETE, "counter=signups").await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{}", removed.body);
    let found = fetch(&router, "goals?precision=86400").await.json();
    assert_eq!(found["goals"], json!([]));
}

async fn post_form(router: &Router, path: &str, form: &str) -> ResponseText {
    let request = Request::post(format!("/admin/stats/{path}"))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "text/html")
        .header("sec-fetch-site", "same-origin");
    response(router, request.body(Body::from(form.to_owned())).expect("an address")).await
}

async fn page(router: &Router, path: &str) -> String {
    let page = send(router, &format!("/admin/stats{path}"), None).await;
    assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
    page.body
}

#[tokio::test]
async fn a_counter_page_marks_a_goal_and_the_site_shows_how_many_reach_it() {
    let store = MemoryStore::new();
    let mut counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let (router, readers) =
        (router(&counters, &store, Access::open().may_note()), router(&counters, &store, Access::open()));
    let recorder = counters.recorder();
    for (number, counter) in [(1, "hits"), (2, "hits"), (3, "hits"), (4, "hits"), (1, "/done"), (1, "/done")]
    {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&[number]]);
        recorder.record(recorder.counter(counter), Some(visitor));
    }
    // These hits have no visitors, so it is not known how many people they are.
    recorder.record(recorder.counter("sent"), None);
    recorder.record(recorder.counter("label:device:phone"), None);
    counters.flush().await.expect("memory does not fail");

    assert!(!page(&router, "?period=24h").await.contains("id=\"goals-title\""));
    let counter = "/counter?counter=%2Fdone&period=24h";
    assert!(page(&router, counter).await.contains("<summary>Mark as a goal</summary>"));
    assert!(!page(&readers, counter).await.contains("goal"));
    assert!(!page(&router, "/counter?counter=label:device:phone&period=24h").await.contains("goal"));

    let to = "%2Fcounter%3Fcounter%3D%252Fdone";
    for (form, status) in [
        (format!("counter=%2Fdone&name=Is+<done>&to={to}"), StatusCode::SEE_OTHER),
        ("counter=sent&name=Sent".to_owned(), StatusCode::SEE_OTHER),
        ("counter=%2Fdone&name=+".to_owned(), StatusCode::BAD_REQUEST),
        ("counter=&name=Nothing".to_owned(), StatusCode::BAD_REQUEST),
        ("counter=label:device:phone&name=Phones".to_owned(), StatusCode::BAD_REQUEST),
    ] {
        let marked = post_form(&router, "goals", &form).await;
        assert_eq!(marked.status, status, "{form}: {}", marked.body);
        if form.contains("to=") {
            assert_eq!(marked.headers[header::LOCATION], "/admin/stats/counter?counter=%2Fdone");
        }
        assert!(status.is_redirection() || marked.body.contains("Goal not marked"), "{}", marked.body);
    }
    assert_eq!(post_form(&readers, "goals", "counter=%2Fdone&name=a").await.status, StatusCode::FORBIDDEN);

    let site = page(&router, "?period=24h").await;
    let (_, goals) = site.split_once("id=\"goals-title\"").expect("the goals");
    let (goals, _) = goals.split_once("</section>").expect("their end");
    let goals = goals.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text.trim());
    let goals = goals.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    for row in ["Is &#60;done&#62; 1 25.0 %", "Sent 1 hit –"] {
        assert!(goals.contains(row), "{row} in {goals}");
    }
    let marked = page(&readers, counter).await;
    assert!(
        marked.contains("Goal: <b><bdi>Is &lt;done&gt;</bdi></b>") && !marked.contains("<details id=\"goal")
    );
    assert!(page(&router, counter).await.contains("<summary>Change the goal</summary>"));

    let removed = post_form(&router, "goals/remove", &format!("counter=%2Fdone&to={to}")).await;
    assert_eq!(removed.status, StatusCode::SEE_OTHER);
    let site = page(&router, "?period=24h").await;
    assert!(site.contains("id=\"goals-title\"") && !site.contains("Is &"), "{site}");
}

#[tokio::test]
async fn goals_need_the_right_a_name_and_the_option() {
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
    let readers = router(&counters, &store, Access::open());
    for method in [Method::POST, Method::DELETE] {
        let refused = change(&readers, method, "counter=signups&name=Signed+up").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    }
    let router = router(&counters, &store, Access::open().may_note());
    for (question, parameter) in [
        ("name=a", "counter"),
        ("counter=&name=a", "counter"),
        ("counter=a", "name"),
        ("counter=view:a&name=a", "counter"),
        ("counter=a&name=", "name"),
        ("counter=a&name=a%0Ab", "name"),
        ("counter=a&name=a&more=b", "more"),
    ] {
        let refused = change(&router, Method::POST, question).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{question}: {}", refused.body);
        assert_eq!(refused.json()["parameter"], parameter, "{question}: {}", refused.body);
    }
    let unknown = fetch(&router, "goals?precision=60").await;
    assert_eq!(
        (unknown.status, &unknown.json()["parameter"]),
        (StatusCode::BAD_REQUEST, &json!("precision"))
    );
    let without = counter_admin::router(counters.stats(), Access::open());
    let without = Router::new().nest("/admin/stats", without);
    assert_eq!(fetch(&without, "goals?precision=86400").await.status, StatusCode::NOT_FOUND);
}
