//! Accessibility and layout: in light and dark mode, and on a phone.

use serde_json::{Value, json};
use tests::browser::{BrowserSettings, Key, browse, browse_at};

use super::checks::{
    ACCESSIBILITY_SCRIPT, AXIS_LABELS_SCRIPT, CUT_TEXTS_SCRIPT, LAYOUT_SCRIPT, OVERFLOW_SCRIPT,
};
use crate::admin::years::serve_years;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_is_accessible_in_light_and_dark_mode_and_on_a_phone() {
    for (name, dark, width, height) in
        [("light", false, 1180, 1300), ("dark", true, 1180, 1300), ("phone", false, 320, 844)]
    {
        browse(BrowserSettings { demo: true, dark, width, height, ..BrowserSettings::default() }, move |page| async move {
            // A same-origin session can record hits, and the page then has a sources table.
            page.open("").await;
            let sent = "return fetch('/admin/stats/api/hits?producer=shop&number=1', { method: 'POST', body: '{}' })
                .then((answer) => answer.status)";
            assert_eq!(page.run(sent).await, 200);
            let noted = "return fetch('/admin/stats/api/notes?text=Version+1.4', { method: 'POST' })
                .then((answer) => answer.status)";
            assert_eq!(page.run(noted).await, 201);
            page.open("").await;
            page.run("document.getElementById('service').open = true").await;
            page.until_text("#sources th", |source| source == "producer:shop").await;
            for state in [
                "?period=1min&by=second&counter=hits&counter=%2F&counter=%2Farticles&forecast=1",
                "?period=24h&show=people",
                "/list?period=24h&q=articles",
                "/list?period=30d&label=source",
                "/counter?counter=%2Farticles&period=1min&by=second",
                "/counter?counter=%2Farticles",
                "/api/explore",
            ] {
                page.open(state).await;
                if !state.contains("api") {
                    page.until_text("#live", |live| live == "Live").await;
                }
                let wrong = page.run(ACCESSIBILITY_SCRIPT).await;
                assert_eq!(wrong, json!([]), "{name}, {state}");
                assert_eq!(page.run(OVERFLOW_SCRIPT).await, 0, "{name} does not scroll sideways, {state}");
                // The links in menus also need a name, contrast and size.
                page.run("for (const menu of document.querySelectorAll('.menu')) menu.open = true").await;
                assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}, {state}, menus");
                assert_eq!(page.run(OVERFLOW_SCRIPT).await, 0, "{name} does not scroll sideways, {state}, menus");
            }
            page.open("?period=30min&counter=hits&counter=%2F").await;
            page.until_refreshed(1).await;
            let mut before = page.run(LAYOUT_SCRIPT).await;
            let after = loop {
                page.until_refreshed(1).await;
                let after = page.run(LAYOUT_SCRIPT).await;
                // A note, a banner or a status may come or go in between. Then we try again.
                if after["messages"] == before["messages"] {
                    break after;
                }
                before = after;
            };
            assert_eq!(after, before, "{name}: the layout is stable during live updates");
            page.save_screenshot(name).await;
            // Measurements are displayed, also as a table.
            page.open("/counter?counter=%2Farticles&period=30min").await;
            page.until_text("#measured", |text| text.contains("Time to response headers")).await;
            page.run("document.getElementById('bands-details').open = true").await;
            page.until_text("#bands-twin tr", |row| row.ends_with(char::is_numeric)).await;
            page.until_text("#statuses", |rows| rows.starts_with("200")).await;
            page.run("document.getElementById('measured-title').scrollIntoView()").await;
            page.save_screenshot(&format!("{name}-counter")).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_cards_and_panels_are_not_cut_at_any_width() {
    browse(BrowserSettings { demo: true, ..BrowserSettings::default() }, |page| async move {
        for width in [320, 390, 768, 1024, 1280] {
            page.emulate_width(width).await;
            for state in [
                "?period=today",
                "?period=30d&compare=year",
                "/counter?counter=%2Farticles&period=today",
                "/alerts",
            ] {
                page.open(state).await;
                assert_eq!(page.run(CUT_TEXTS_SCRIPT).await, json!([]), "{state} at {width} pixels");
                assert_eq!(page.run(OVERFLOW_SCRIPT).await, 0, "{state} at {width} pixels");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_is_near_the_top_on_a_phone() {
    for script in [true, false] {
        let phone =
            BrowserSettings { demo: true, script, width: 390, height: 844, ..BrowserSettings::default() };
        browse(phone, |page| async move {
            for state in [
                "",
                "?period=7d&compare=year",
                "?period=custom&from=2026-01-01&to=2026-01-31",
                "/counter?counter=%2Farticles%2F%7Bid%7D",
            ] {
                page.open(state).await;
                let top =
                    page.run("return document.getElementById('lines').getBoundingClientRect().top").await;
                assert!(top.as_f64() < Some(700.0), "{state}: {top}");
                assert_eq!(page.run(OVERFLOW_SCRIPT).await, 0, "{state}");
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_year_is_accessible_in_light_and_dark_mode_and_on_a_phone() {
    let link = serve_years().await;
    for (name, dark, width, height) in
        [("year", false, 1180, 1000), ("year-dark", true, 1180, 1000), ("year-phone", false, 390, 844)]
    {
        browse_at(
            link.clone(),
            BrowserSettings { dark, width, height, ..BrowserSettings::default() },
            move |page| async move {
                for state in [
                    "?period=750d&counter=hits&counter=%2F",
                    "?period=168h",
                    "?period=12mo",
                    "?period=365d&counter=hits&counter=%2F&show=people",
                ] {
                    page.open(state).await;
                    page.until_text("#live", |live| live == "Live").await;
                    assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}, {state}");
                    assert_eq!(
                        page.run(OVERFLOW_SCRIPT).await,
                        0,
                        "{name} does not scroll sideways, {state}"
                    );
                    // Axis labels must not overlap.
                    assert_eq!(page.run(AXIS_LABELS_SCRIPT).await, json!([]), "{name}, {state}");
                }
                let marks = "return [...document.querySelectorAll('.time')].map((mark) => mark.textContent)";
                let marks = page.run(marks).await;
                let year = |mark: &Value| mark.as_str().is_some_and(|mark| mark.parse::<u16>().is_ok());
                assert_eq!(
                    marks.as_array().expect("marks").iter().filter(|mark| year(mark)).count(),
                    1,
                    "{marks}"
                );
                // Dates include the year if it is not the current year.
                page.until_text("#sums", |sums| sums.contains(" 20")).await;
                page.press("#lines", Key::Home).await;
                page.until_text("#readout", |said| said.contains(" 20") && said.contains("A people: ")).await;
                page.save_screenshot(name).await;
            },
        )
        .await;
    }
}
