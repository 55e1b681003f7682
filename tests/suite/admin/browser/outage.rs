//! The page while the store is away.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use counter_admin::Access;
use counter_core::{MemoryStore, Timestamp};
use serde_json::json;
use tests::browser::{BrowserSettings, browse_at};
use tests::{RedisServer, until};
use tokio::sync::watch;

use super::LIMIT;
use super::checks::ACCESSIBILITY_SCRIPT;
use crate::admin::site::Site;
use crate::support::store;

/// Serves a dashboard and returns the link.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/admin/stats?token=a-token-for-tests")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_dimmed_while_the_store_is_away() {
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let access = Access::bearer("a-token-for-tests").expect("a token");
    let mut site = Site::with(store(&redis.url()).await, access);
    for counter in ["hits", "/"] {
        site.record(counter, Timestamp::now(), 8).await;
    }
    let link = serve(site.router).await;
    browse_at(link, BrowserSettings::default(), |page| async move {
        page.open("?period=7d").await;
        page.until_text("#live", |live| live == "Live").await;
        let look = "const of = (css) => getComputedStyle(document.querySelector(css));
            return [document.getElementById('main').className, of('#total').color, of('#lines > svg').opacity]";
        let before = page.run(look).await;
        assert_eq!(before[0], "");

        redis.stop();
        page.until_text("#live", |live| live.starts_with("Store unreachable since ")).await;
        page.until_text("#status", |status| status.starts_with("The store cannot be read.")).await;
        let dimmed = page.run(look).await;
        assert_eq!(dimmed[0], "stale");
        assert!(dimmed[1] != before[1] && dimmed[2] != before[2], "{before} {dimmed}");
        assert_eq!(page.text("#total").await, "8", "the last known number");
        assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
        page.save_screenshot("store-away").await;
        // A page that is opened now has no numbers, and never claims to be live.
        page.run("location.href = '?period=7d'").await;
        page.until_text("h1", |title| title == "Data unavailable").await;
        page.until_text("#live", |live| !live.is_empty()).await;
        assert!(page.text("#live").await.starts_with("Store unreachable since "), "{}", page.text("#live").await);
        assert!(page.text("#revocations").await.starts_with("The store cannot be read."));
        page.save_screenshot("store-away-since-start").await;

        redis.restart();
        page.until_text("h1", |title| title == "Visits").await;
        page.until_text("#live", |live| live == "Live").await;
        assert!(page.text("#period-menu > summary").await.starts_with("7 days"));
        page.until_text("#now", |now| now.starts_with("0 people now")).await;
        assert_eq!(page.run("return document.querySelectorAll('.loud').length").await, 0, "no banner stays");
        assert_eq!((page.text("#total").await, page.run(look).await), ("8".to_owned(), before));
        // The browser logs the status of failed requests, in order.
        page.run("console.error('the end')").await;
        let is_end = |entry: &String| entry.contains("the end");
        until("it has logged all", LIMIT, async || page.console_errors().await.iter().any(is_end)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_answering_is_noticed() {
    let mut site = Site::with(MemoryStore::new(), Access::bearer("a-token-for-tests").expect("a token"));
    for counter in ["hits", "/"] {
        site.record(counter, Timestamp::now(), 8).await;
    }
    let (stop, stopped) = watch::channel(false);
    let hang = from_fn(move |request: Request, next: Next| {
        let mut stopped = stopped.clone();
        async move {
            let waited = stopped.wait_for(|is_stopped| !is_stopped).await.map(|_| ());
            waited.expect("the test runs");
            next.run(request).await
        }
    });
    let link = serve(site.router.layer(hang)).await;
    browse_at(link, BrowserSettings::default(), |page| async move {
        page.open("?period=1h").await;
        page.until_text("#live", |live| live == "Live").await;
        stop.send_replace(true);
        page.until_text("#live", |live| live.starts_with("No answer since ")).await;
        assert_eq!(page.run("return document.getElementById('main').className").await, "stale");
        assert_eq!(page.text("#total").await, "8", "the last known number");
        assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
        stop.send_replace(false);
        page.until_text("#live", |live| live == "Live").await;
        assert_eq!(page.run("return document.getElementById('main').className").await, "");
    })
    .await;
}
