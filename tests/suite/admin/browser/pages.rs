//! The table of pages: live numbers, search, and URLs that restore a view.

use tests::browser::{BrowserSettings, Key, browse};
use tests::until;

use super::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_opens_the_dashboard_and_the_numbers_update_live() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        // A page with an error is a hit, but not a view.
        page.until_text("#views", |views| views == "7").await;
        for _ in 0..5 {
            page.visit("/articles").await;
        }
        page.until_text("#views", |views| views == "12").await;
        page.until_text("#people", |people| people == "1").await;
        page.until_text("#live", |live| live == "Live").await;
        // The table is also updated, and so is the closed table below the chart.
        page.until_text("#rows", |rows| rows.contains("/articles 1 6 ")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_while_typing_keeps_the_text_and_the_focus() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("?period=7d").await;
        page.choose("#period-menu", "#period-30-days").await;
        page.until_text("#period-menu > summary", |shown| shown.starts_with("30 days")).await;
        let field = "const field = document.getElementById('q');
            return [field === document.activeElement, field.value, field.selectionStart]";
        for (typed, text, found) in [("art", "art", "1–2 of 2"), ("icles/", "articles/", "1–1 of 1")] {
            page.write("#q", typed).await;
            page.until_text(".pages span", |shown| shown == found).await;
            assert_eq!(page.run(field).await, serde_json::json!([true, text, text.len()]));
        }
        assert!(page.address().await.ends_with("/list?period=30d&q=articles%2F"), "{}", page.address().await);
        page.press("#rows a", Key::Enter).await;
        page.until_text("h1", |title| title.starts_with("/articles/")).await;
        page.run("history.back()").await;
        page.until_text(".pages span", |shown| shown == "1–1 of 1").await;
        assert_eq!(page.run("return document.getElementById('q').value").await, "articles/");
        // Each letter replaces the list in the history.
        page.run("history.back()").await;
        page.until_text("h1", |title| title == "Visits").await;
        page.run("history.back()").await;
        page.until_text("#period-menu > summary", |shown| shown.starts_with("7 days")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_restores_the_view() {
    browse(BrowserSettings::default(), |page| async move {
        let state = "?counter=hits&counter=%2F&period=24h&show=people&zone=local";
        page.open(state).await;
        page.until_text("#chart-title", |title| title == "People per hour").await;
        let legend = page.text(".legend ul").await;
        for line in ["A people", "B /", "C people (previous)"] {
            assert!(legend.contains(line), "{legend}");
        }
        assert_eq!(page.text("#zone-name").await, "Asia/Tokyo");
        assert_eq!(page.run("return document.querySelectorAll('#twin tbody tr').length").await, 24);
        page.click("#rows a[href*='%2Farticles&']").await;
        page.until_text("h1", |title| title.starts_with("/articles")).await;
        let address = page.address().await;
        assert!(
            address.contains("/counter?counter=%2Farticles") && address.contains("period=24h"),
            "{address}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_works_without_javascript() {
    browse(BrowserSettings { script: false, ..BrowserSettings::default() }, |page| async move {
        page.open("").await;
        assert_eq!(page.text("#zone-name").await, "UTC");
        assert!(page.text("#now").await.contains(" now"));
        page.choose("#period-menu", "#period-last-hour").await;
        page.until_text("#chart-title", |title| title == "Hits per minute").await;
        page.write("#q", &format!("articles{}", char::from(Key::Enter))).await;
        page.until_text(".pages span", |shown| shown == "1–2 of 2").await;
        assert!(page.address().await.contains("/list?period=1h&q=articles"), "{}", page.address().await);
        page.click(".crumb a").await;
        page.click(".toggle[href*='%2Farticles&']").await;
        page.until_text(".legend ul", |legend| legend.contains("B /articles")).await;
        page.click("#twin-details summary").await;
        page.until_text("#twin tbody tr", |row| row.contains("so far")).await;
        page.choose("#more", "form[action$='/logout'] button").await;
        page.until_text("h1", |title| title == "Signed out").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tab_stays_open_while_the_page_is_updated() {
    browse(BrowserSettings { demo: true, ..BrowserSettings::default() }, |page| async move {
        page.open("?period=1h").await;
        page.until_text("#label-address", |rows| !rows.is_empty()).await;
        page.run("document.getElementById('show-routes').click()").await;
        page.until_text("#rows", |rows| rows.contains("/articles")).await;
        page.until_refreshed(2).await;
        assert!(page.text("#rows").await.contains("/articles"));
        page.click("#all-pages").await;
        page.until_text("h1", |title| title == "Pages").await;
        page.click("#by-name").await;
        until("the list is sorted", LIMIT, async || page.address().await.contains("sort=name")).await;
        page.run("history.go(-2)").await;
        page.until_text("h1", |title| title == "Visits").await;
        page.click("#all-label-source").await;
        page.until_text("h1", |title| title == "Sources").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_clicks_choose_a_period() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("?period=today").await;
        for (key, title) in [("m", "This month"), ("w", "This week"), ("d", "Today")] {
            page.write("#main", key).await;
            page.until_text("#period-menu > summary", |shown| shown.starts_with(title)).await;
        }
        page.open("?period=last-week").await;
        let tuesday = "return document.querySelectorAll('#twin time')[5].dateTime";
        let tuesday = page.run(tuesday).await;
        page.drag("#lines", 1.5 / 7.0, 1.5 / 7.0).await;
        page.until_text("#period-menu > summary", |shown| !shown.starts_with("Last week")).await;
        let first = page.run("return [...document.querySelectorAll('#twin time')].at(-1).dateTime").await;
        assert_eq!(first, tuesday);
    })
    .await;
}
