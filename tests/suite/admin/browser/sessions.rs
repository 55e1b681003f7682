//! Signing in and out, and share links.

use serde_json::json;
use tests::browser::{BrowserSettings, Key, Page, browse};
use tests::until;

use super::LIMIT;
use super::checks::ACCESSIBILITY_SCRIPT;

async fn sign_out(page: &Page) {
    page.choose("#more", "form[action$='/logout'] button").await;
    page.until_text("h1", |title| title == "Signed out").await;
}

/// The browser logs the status of an error page, which is expected here.
async fn discard_logged_statuses(page: &Page) {
    until("the browser has logged a status", LIMIT, async || !page.console_errors().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_also_opens_the_dashboard_from_a_different_site() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        let here = page.address().await;
        // The same server under a different name is a different site.
        let other = format!("{}?token=a-token-for-tests", here.replace("127.0.0.1", "localhost"));
        page.run(&format!("location.href = '{other}'")).await;
        let is_at = async |address: &str| page.address().await == address;
        until("it is another site", LIMIT, async || is_at(other.split('?').next().expect("one")).await).await;
        page.run(&format!(
            "const link = document.createElement('a'); link.href = '{here}?token=a-token-for-tests';
             document.body.append(link); link.click()"
        ))
        .await;
        until("it is the site again", LIMIT, async || is_at(&here).await).await;
        page.until_text("h1", |title| title == "Visits").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_numbers_are_visible_after_a_logout() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        sign_out(&page).await;
        let status = "fetch('/admin/stats/api/ledger').then((answer) => done(answer.status))";
        assert_eq!(page.run_until_done(status).await, 401);
        discard_logged_statuses(&page).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_session_the_login_page_leads_to_the_requested_page() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        sign_out(&page).await;
        assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
        page.open("/counter?counter=%2F&period=7d").await;
        page.until_text("h1", |title| title == "Sign in").await;
        assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
        page.write("#token", "another").await;
        page.press("#token", Key::Enter).await;
        page.until_text("main p", |words| words == "This token is not valid.").await;
        page.write("#token", "a-token-for-tests").await;
        page.press("#token", Key::Enter).await;
        page.until_text("h1", |title| title == "/").await;
        assert!(page.address().await.ends_with("/admin/stats/counter?counter=%2F&period=7d"));
        discard_logged_statuses(&page).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_link_can_be_made_by_keyboard_and_works_without_a_session() {
    for (script, dark, width, height) in [(true, false, 1180, 1000), (false, true, 390, 844)] {
        let settings = BrowserSettings { script, dark, width, height, ..BrowserSettings::default() };
        browse(settings, move |page| async move {
            page.open("/counter?counter=%2F&period=24h").await;
            page.choose("#more", "#share").await;
            page.until_text("h1", |title| title == "Share").await;
            page.press("#days", Key::Enter).await;
            page.until_text("#created-title", |title| title == "Link created").await;
            if script {
                assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
            }
            page.save_screenshot(if dark { "share-phone" } else { "share" }).await;
            let (link, address) = (page.attribute("#shared", "value").await, page.address().await);
            let origin = address.split_once("/admin/stats").expect("the address of a page").0;
            let link = link.strip_prefix(origin).expect("the same origin").to_owned();
            if script {
                page.press("#copy", Key::Enter).await;
                page.until_text("#copied", |text| !text.is_empty()).await;
            }
            page.open("").await;
            sign_out(&page).await;
            page.open(link.strip_prefix("/admin/stats").expect("a link")).await;
            page.until_text("h1", |title| title == "/").await;
            page.press("#twin-details summary", Key::Enter).await;
            page.until_text("#twin tbody tr", |row| row.contains("1 so far")).await;
            page.until_text("#measured", |text| text.contains("Time to response headers")).await;
            if script {
                assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
            }
            page.save_screenshot(if dark { "shared-phone" } else { "shared" }).await;
        })
        .await;
    }
}
