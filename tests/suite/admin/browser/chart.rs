//! The chart: with the keyboard, the mouse and a finger.

use serde_json::json;
use tests::browser::{BrowserSettings, Key, Page, browse};
use tests::until;

use super::LIMIT;

/// The selected sample in the chart, and the matching table row, read atomically.
#[derive(Debug)]
struct Selection {
    at: u64,
    last: u64,
    said: String,
    row: String,
}

async fn selected(page: &Page) -> Selection {
    let seen = page.run(SELECTION_SCRIPT).await;
    let (number, text) = (
        |place: usize| seen[place].as_u64().expect("a time"),
        |place: usize| seen[place].as_str().unwrap_or_default().to_owned(),
    );
    Selection { at: number(0), last: number(1), said: text(2), row: text(3) }
}

const SELECTION_SCRIPT: &str = r##"
const lines = document.getElementById("lines"), rows = [...document.querySelectorAll("#twin tbody tr")].reverse();
const row = rows[lines.getAttribute("aria-valuenow")];
const at = (row) => Date.parse(row.querySelector("time").dateTime) / 1000;
return [at(row), at(rows.at(-1)), lines.getAttribute("aria-valuetext"),
  `${row.cells[0].textContent}, A hits: ${row.cells[1].textContent}`];
"##;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_can_be_read_by_keyboard() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        page.choose("#period-menu", "#period-last-5-min").await;
        page.until_text("#chart-title", |title| title == "Hits per 5 s").await;
        assert!(page.address().await.ends_with("/admin/stats?period=5min"), "{}", page.address().await);
        page.run("history.back()").await;
        page.until_text("#chart-title", |title| title == "People per hour").await;

        page.open("?period=1h&compare=none").await;
        // A new bucket can start at any time and shift the rows, so we compare times instead of positions.
        let before = selected(&page).await.last;
        page.press("#lines", Key::End).await;
        let end = selected(&page).await;
        assert!(before <= end.at && end.at <= end.last, "{before}, {end:?}");
        for (key, back) in [(Key::Left, 60), (Key::Right, 0), (Key::PageUp, 600), (Key::Up, 540)] {
            page.press("#lines", key).await;
            let there = selected(&page).await;
            assert_eq!(there.at, end.at - back, "{key:?}");
            assert_eq!(there.said, there.row, "{key:?}");
            assert!(there.said.contains(", A hits: "), "{there:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drag_zooms_to_exactly_these_buckets() {
    browse(BrowserSettings::default(), |page| async move {
        // A period that does not move.
        for state in ["?period=yesterday", "/counter?counter=%2F&period=yesterday"] {
            page.open(state).await;
            let shown = async || {
                let starts = "return [...document.querySelectorAll('#twin time')]
                    .map((time) => Date.parse(time.dateTime) / 1000).reverse()";
                serde_json::from_value::<Vec<u64>>(page.run(starts).await).expect("times")
            };
            let hours = shown().await;
            assert_eq!(hours.len(), 24);
            // To the left, up to the end of the day, and within a bucket, which does not zoom.
            for (from, to, buckets) in [(10.5, 5.1, 5..11), (20.5, 23.9, 20..24)] {
                page.drag("#lines", from / 24.0, to / 24.0).await;
                page.until_text("#period-menu > summary", |shown| !shown.starts_with("Yesterday")).await;
                let (start, end) = (hours[buckets.start], hours[buckets.end - 1] + 3600);
                let expected = format!("period=custom&from={start}&to={end}");
                assert!(page.address().await.ends_with(&expected), "{} {expected}", page.address().await);
                assert_eq!(shown().await, hours[buckets]);
                page.run("history.back()").await;
                page.until_text("#period-menu > summary", |shown| shown.starts_with("Yesterday")).await;
            }
            page.drag("#lines", 5.1 / 24.0, 5.9 / 24.0).await;
            page.until_text("#readout", |readout| readout.contains("A ")).await;
            assert!(page.address().await.ends_with(state));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tap_shows_the_values_of_a_bucket() {
    let phone = BrowserSettings { width: 390, height: 844, ..BrowserSettings::default() };
    browse(phone, |page| async move {
        page.open("?period=yesterday&compare=none").await;
        page.tap("#lines", 5.5 / 24.0).await;
        page.until_text("#readout", |readout| readout.contains("A hits: ")).await;
        let first = selected(&page).await;
        assert_eq!(first.last - first.at, 18 * 3600);
        assert_eq!(first.said, first.row);
        page.tap("#lines", 20.5 / 24.0).await;
        until("the other bucket is selected", LIMIT, async || {
            selected(&page).await.at == first.at + 15 * 3600
        })
        .await;
        assert!(page.address().await.ends_with("?period=yesterday&compare=none"), "a tap does not zoom");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_forecast_can_be_read_by_keyboard_and_is_updated_live() {
    browse(BrowserSettings::default(), |page| async move {
        // There is less than 30 hours of history, but soon there will be 30 seconds.
        page.open("?period=30h").await;
        page.press("#forecast-forecast", Key::Enter).await;
        page.until_text("#outlook", |words| words.starts_with("No forecast yet")).await;
        assert!(page.address().await.ends_with("?period=30h&forecast=1"));
        page.open("?period=2min&by=second&compare=none&forecast=1").await;
        page.until_text("#outlook", |words| words.contains("complete values, with a band")).await;
        // It is possible that a bucket "still to come" is over when we read it.
        until("the last bucket is still to come", LIMIT, async || {
            page.press("#lines", Key::End).await;
            let said = selected(&page).await.said;
            said.contains("A hits: still to come") && said.contains("B hits (forecast): ")
        })
        .await;
        page.press("#lines", Key::Home).await;
        page.until_text("#readout", |readout| readout.contains("A hits: ") && !readout.contains("forecast"))
            .await;
        assert_eq!(page.run("return document.querySelectorAll('#twin tbody tr').length > 60").await, true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_times_are_in_the_zone_of_the_site_or_all_in_that_of_the_viewer() {
    browse(BrowserSettings::default(), |page| async move {
        for (zone, offset) in [("America/Los_Angeles", None), ("Asia/Tehran", Some(12_600)), ("Africa/Abidjan", None)] {
            page.emulate_zone(zone).await;
            page.open("?period=1h").await;
            let noted = "return fetch('/admin/stats/api/notes?text=Version+1.4', { method: 'POST' }).then(({ status }) => status)";
            assert_eq!(page.run(noted).await, 201);
            page.open("?period=1h").await;
            page.until_text("#annotations", |notes| notes.contains("Version 1.4")).await;
            assert_eq!(page.run(&times_that_are_not_in("UTC")).await, json!([]), "{zone}");
            assert_eq!(page.text("#zone-name").await, "UTC");
            let is_hidden = page.run("return document.getElementById('zone').hidden").await;
            if zone == "Africa/Abidjan" {
                assert_eq!(is_hidden, true, "the clocks of the viewer show the same");
                continue;
            }
            page.press("body", 'u').await;
            page.until_text("#zone-name", |name| name == zone).await;
            assert!(page.address().await.ends_with("?period=1h&zone=local"));
            for refreshed in [0, 2] {
                page.until_refreshed(refreshed).await;
                assert_eq!(page.run(&times_that_are_not_in(zone)).await, json!([]), "{zone}");
            }
            if let Some(offset) = offset {
                // Forms are in the same zone.
                page.press("#note-details summary", Key::Enter).await;
                assert_eq!(page.text("label[for=note-at]").await, format!("Time ({zone}, empty for now)"));
                let ago = format!(
                    "document.getElementById('note-text').value = 'Half an hour ago';
                     const at = new Date(Date.now() + ({offset} - 1800) * 1000);
                     document.getElementById('note-at').value = at.toISOString().slice(0, 16);"
                );
                page.run(&ago).await;
                page.press("#note-details button", Key::Enter).await;
                page.until_text("#annotations li:first-child", |note| note.contains("Half an hour ago")).await;
                let time = page.attribute("#annotations li:first-child time", "datetime").await;
                let at: jiff::Timestamp = time.parse().expect("an instant");
                let ago = jiff::Timestamp::now().as_second() - at.as_second();
                assert!((1800..3600).contains(&ago), "{time}");
            }
            // A day that ends now is compared with the one before.
            page.open("?period=24h&zone=local").await;
            assert_eq!(page.run("return document.querySelectorAll('#compare-menu time').length").await, 2);
            assert_eq!(page.run(&times_that_are_not_in(zone)).await, json!([]), "{zone}");
            // Days are those of the site, and so are all times next to them.
            page.choose("#period-menu", "#period-7-days").await;
            page.until_text("#zone-name", |name| name == "UTC").await;
            let is_offered = page.run("return document.getElementById('zone') !== null").await;
            assert_eq!(is_offered, false);
            assert_eq!(page.run(&times_that_are_not_in("UTC")).await, json!([]), "{zone}");
        }
    })
    .await;
}

/// Returns a script that returns all texts of times, except for dates, that do not show the time in a zone.
fn times_that_are_not_in(zone: &str) -> String {
    format!(
        "const format = new Intl.DateTimeFormat('en-GB', {{ timeZone: '{zone}', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }});
         const at = (element) => element.dataset.t ? element.dataset.t * 1000 : Date.parse(element.dateTime);
         const wrong = (element) => element.textContent.includes(':') && !element.textContent.includes(format.format(at(element)));
         return [...document.querySelectorAll('time[datetime], text[data-t]')].filter(wrong).map((element) => element.outerHTML)"
    )
}
