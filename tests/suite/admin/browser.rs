//! The dashboard in a browser: with the keyboard, without JavaScript, and on a phone.
//!
//! Screenshots are written to the folder `screenshots` in the target folder.

use std::time::Duration;

use serde_json::{Value, json};
use tests::browser::{BrowserSettings, Key, Page, browse, browse_at};
use tests::until;

/// Timeout for changes on a page, long enough to be safe on a busy machine.
const LIMIT: Duration = tests::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_opens_the_dashboard_and_the_numbers_update_live() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        page.until_text("#total", |total| total == "8").await;
        for _ in 0..5 {
            page.visit("/articles").await;
        }
        page.until_text("#total", |total| total == "13").await;
        page.until_text("#visitors", |visitors| visitors == "1").await;
        page.until_text("#live", |live| live == "Live").await;
        // The table is also updated, and so is the closed table below the chart.
        page.until_text("#rows", |rows| rows.contains("/articles 6 ")).await;
    })
    .await;
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
        page.press(".logout button", Key::Enter).await;
        page.until_text("h1", |title| title == "Signed out").await;
        let status = "fetch('/admin/stats/api/ledger').then((answer) => done(answer.status))";
        assert_eq!(page.run_until_done(status).await, 401);
        // The browser logs the status as an error.
        until("it has complained", LIMIT, async || !page.console_errors().await.is_empty()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_session_the_login_page_leads_to_the_requested_page() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        page.press(".logout button", Key::Enter).await;
        page.until_text("h1", |title| title == "Signed out").await;
        assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
        page.open("/counter?counter=%2F&precision=3600").await;
        page.until_text("h1", |title| title == "Sign in").await;
        assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
        page.write("#token", "another").await;
        page.press("#token", Key::Enter).await;
        page.until_text("main p", |words| words == "This token is not valid.").await;
        page.write("#token", "a-token-for-tests").await;
        page.press("#token", Key::Enter).await;
        page.until_text("h1", |title| title == "/").await;
        assert!(page.address().await.ends_with("/admin/stats/counter?counter=%2F&precision=3600"));
        // The browser logs the status of both pages as errors.
        until("it has complained", LIMIT, async || !page.console_errors().await.is_empty()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_can_be_used_by_keyboard() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        page.press("#p2", Key::Enter).await;
        page.until_text("#chart-title", |title| title == "Hits per 5 s").await;
        assert!(page.address().await.ends_with("/admin/stats?precision=5"), "{}", page.address().await);
        assert_eq!(page.run("return document.activeElement.id").await, "p2", "the focus stays");
        page.run("history.back()").await;
        page.until_text("#chart-title", |title| title == "Hits per minute").await;

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
async fn a_note_can_be_added_and_removed_by_keyboard_with_or_without_javascript() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("?period=30h").await;
            page.press("#note-details summary", Key::Enter).await;
            page.write("#note-text", &format!("Version <1.4>{}", char::from(Key::Enter))).await;
            page.until_text("#annotations ol", |told| told.contains("Version <1.4>")).await;
            assert!(page.address().await.ends_with("/admin/stats?period=30h"));
            page.save_screenshot(if script { "note" } else { "note without a script" }).await;
            if script {
                // It is possible that the hour has ended in the meantime.
                until("the chart tells of it", LIMIT, async || {
                    page.press("#lines", Key::End).await;
                    let now = selected(&page).await.said.contains("Version <1.4>");
                    page.press("#lines", Key::Left).await;
                    now || selected(&page).await.said.contains("Version <1.4>")
                })
                .await;
                page.until_refreshed(2).await;
                assert!(page.text("#annotations").await.contains("Version <1.4>"));
            }
            page.press("#annotations .remove", Key::Enter).await;
            page.until_text("#annotations", str::is_empty).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_forecast_can_be_read_by_keyboard_and_is_updated_live() {
    browse(BrowserSettings::default(), |page| async move {
        // There is less than 30 hours of history, but soon there will be 30 seconds.
        page.open("?period=30h").await;
        page.press("#forecast", Key::Enter).await;
        page.until_text("#outlook", |words| words.starts_with("No forecast yet")).await;
        assert!(page.address().await.ends_with("?period=30h&forecast=1"));
        page.press("#p1", Key::Enter).await;
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
        assert_eq!(page.run("return document.querySelectorAll('#twin tr').length > 60").await, true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_local_and_a_key_switches_to_utc() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        let shown = "const time = document.querySelector('#twin time');
                     return [time.dateTime.slice(11, 16), time.textContent]";
        let times = async || {
            let times = page.run(shown).await;
            let minutes = |text: &Value| {
                let (hour, minute) = text.as_str()?.split_once(':')?;
                Some(hour.parse::<u32>().ok()? * 60 + minute.parse::<u32>().ok()?)
            };
            (minutes(&times[0]).expect("a time"), minutes(&times[1]).expect("a time"))
        };
        let (utc, local) = times().await;
        assert_eq!(local, (utc + 9 * 60) % 1440, "Tokyo is nine hours ahead");
        page.press("body", 'u').await;
        page.until_text("#zone-name", |zone| zone == "UTC").await;
        assert!(page.address().await.ends_with("?zone=utc"));
        let (utc, shown) = times().await;
        assert_eq!(shown, utc);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_restores_the_view() {
    browse(BrowserSettings::default(), |page| async move {
        let state = "?counter=hits&counter=%2F&period=24h&uniques=1&q=art&sort=name&zone=utc";
        page.open(state).await;
        page.until_text("#chart-title", |title| title == "Hits per hour").await;
        let legend = page.text(".legend ul").await;
        assert!(
            legend.contains("A hits") && legend.contains("B /") && legend.contains("C visitors of hits"),
            "{legend}"
        );
        assert_eq!(page.text("#zone-name").await, "UTC");
        assert_eq!(page.run("return document.getElementById('q').value").await, "art");
        assert_eq!(page.run("return document.querySelectorAll('#twin tr').length").await, 24);
        assert_eq!(page.run("return document.querySelectorAll('#rows tr').length").await, 2);
        page.click("#rows a").await;
        page.until_text("h1", |title| title.starts_with("/articles")).await;
        let address = page.address().await;
        assert!(
            address.contains("/counter?counter=%2Farticles") && address.contains("precision=3600"),
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
        assert!(!page.text("#glance").await.is_empty());
        page.click("#p1").await;
        page.until_text("#chart-title", |title| title == "Hits per second").await;
        page.write("#q", "articles\u{e007}").await;
        page.until_text(".pages", |shown| shown == "1–2 of 2").await;
        assert!(page.address().await.contains("precision=1&q=articles"), "{}", page.address().await);
        page.click(".toggle").await;
        page.until_text(".legend ul", |legend| legend.contains("B /articles")).await;
        page.click("#twin-details summary").await;
        page.until_text("#twin tr", |row| row.contains("so far")).await;
        page.click(".logout button").await;
        page.until_text("h1", |title| title == "Signed out").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_is_accessible_in_light_and_dark_mode_and_on_a_phone() {
    for (name, dark, width, height) in
        [("light", false, 1180, 1300), ("dark", true, 1180, 1300), ("phone", false, 390, 844)]
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
            page.until_text("#sources th", |source| source == "producer:shop").await;
            for state in [
                "?period=1min&by=second&counter=hits&counter=%2F&counter=%2Farticles&forecast=1",
                "/counter?counter=%2Farticles&period=1min&by=second&ago=30",
                "/counter?counter=%2Farticles",
                "/api/explore",
            ] {
                page.open(state).await;
                if !state.contains("api") {
                    page.until_text("#live", |live| live == "Live").await;
                }
                let wrong = page.run(ACCESSIBILITY_SCRIPT).await;
                assert_eq!(wrong, json!([]), "{name}, {state}");
                let widths = page.run("return [document.documentElement.scrollWidth, innerWidth]").await;
                assert_eq!(widths[0], widths[1], "{name} does not scroll sideways");
            }
            page.open("?period=1min&by=second&counter=hits&counter=%2F").await;
            page.until_refreshed(3).await;
            let places = "return [...document.querySelectorAll('main > *, main > .panel > *, .plot > *')].map((e) => {
                const b = e.getBoundingClientRect(); return [e.id || e.className, b.top + scrollY, b.left] })";
            let before = page.run(places).await;
            page.until_refreshed(3).await;
            assert_eq!(page.run(places).await, before, "{name}: the layout is stable during live updates");
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
async fn a_comparison_can_be_chosen_by_keyboard_with_or_without_javascript() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("?period=24h").await;
            page.press("#compare-details summary", Key::Enter).await;
            page.press("#o2", Key::Enter).await;
            page.until_text("#o2[aria-current]", |chip| chip == "Previous 1 day").await;
            page.until_text(".legend ul", |legend| legend.contains("B hits (comparison)")).await;
            page.until_text("#sums", |sums| sums.contains(" vs. ") && sums.contains("A hits 8")).await;
            assert!(page.address().await.ends_with("?period=24h&ago=86400"));
            // The form is filled in with both days, and submits both.
            page.press("#against", Key::Enter).await;
            let asked = async || page.address().await.contains("&against=20");
            until("the days are in the address", LIMIT, asked).await;
            page.until_text(".legend ul", |legend| legend.contains("B hits (comparison)")).await;
            page.press("#o1", Key::Enter).await;
            page.until_text(".legend ul", |legend| !legend.contains("(comparison)")).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_link_can_be_made_by_keyboard_and_works_without_a_session() {
    for (script, dark, width, height) in [(true, false, 1180, 1000), (false, true, 390, 844)] {
        let settings = BrowserSettings { script, dark, width, height, ..BrowserSettings::default() };
        browse(settings, move |page| async move {
            page.open("/counter?counter=%2F&period=24h").await;
            page.press("#share-details summary", Key::Enter).await;
            page.press("#share-days", Key::Enter).await;
            page.until_text("h1", |title| title == "Share this view").await;
            page.press("#days", Key::Enter).await;
            page.until_text("#created-title", |title| title == "Link created").await;
            assert!(!script || page.run(ACCESSIBILITY_SCRIPT).await == json!([]));
            page.save_screenshot(if dark { "share-phone" } else { "share" }).await;
            let (link, address) = (page.attribute("#shared", "value").await, page.address().await);
            let origin = address.split_once("/admin/stats").expect("the address of a page").0;
            let link = link.strip_prefix(origin).expect("the same origin").to_owned();
            if script {
                page.press("#copy", Key::Enter).await;
                page.until_text("#copied", |text| !text.is_empty()).await;
            }
            page.open("").await;
            page.press(".logout button", Key::Enter).await;
            page.until_text("h1", |title| title == "Signed out").await;
            page.open(link.strip_prefix("/admin/stats").expect("a link")).await;
            page.until_text("h1", |title| title == "/").await;
            page.press("#twin-details summary", Key::Enter).await;
            page.until_text("#twin tr", |row| row.ends_with("3 so far")).await;
            page.until_text("#measured", |text| text.contains("Time to response headers")).await;
            if script {
                assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]));
            }
            page.save_screenshot(if dark { "shared-phone" } else { "shared" }).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_can_be_chosen_by_keyboard_with_or_without_javascript() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("").await;
            for (range, title, rows) in [
                ("#r-day", "Hits per hour", 24),
                ("#r-week", "Hits per day", 7),
                ("#r-month", "Hits per day", 30),
            ] {
                page.press(range, Key::Enter).await;
                page.until_text("#chart-title", |shown| shown == title).await;
                page.until_text(&format!("{range}[aria-current]"), |chip| !chip.is_empty()).await;
                if script {
                    assert_eq!(page.run("return document.querySelectorAll('#twin tr').length").await, rows);
                    assert_eq!(
                        page.run("return document.activeElement.id").await,
                        range[1..],
                        "the focus stays"
                    );
                }
            }
            page.until_text("#sums", |sums| sums.contains("to now (30 days)") && sums.contains("A hits 8"))
                .await;
            page.press("#earlier", Key::Enter).await;
            page.until_text("#sums", |sums| sums.contains(" to ") && !sums.contains("to now")).await;
            assert_eq!(page.text("#later").await, "Next month →");
            assert_eq!(page.text("#earlier").await, "← Previous month");
            page.press("#now", Key::Enter).await;
            page.until_text("#sums", |sums| sums.contains("to now (30 days)")).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_year_is_accessible_in_light_and_dark_mode_and_on_a_phone() {
    let link = super::years::serve_years().await;
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
                    "?period=365d&counter=hits&counter=%2F&uniques=1",
                ] {
                    page.open(state).await;
                    page.until_text("#live", |live| live == "Live").await;
                    assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}, {state}");
                    let widths = page.run("return [document.documentElement.scrollWidth, innerWidth]").await;
                    assert_eq!(widths[0], widths[1], "{name} does not scroll sideways");
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
                page.until_text("#readout", |said| said.contains(" 20") && said.contains("A hits: ")).await;
                page.save_screenshot(name).await;
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_can_be_managed_by_keyboard_with_or_without_javascript() {
    for (name, script, dark, width, height) in [
        ("alerts", true, false, 1180, 1000),
        ("alerts-dark", true, true, 1180, 1000),
        ("alerts-phone", true, false, 390, 844),
        ("alerts-plain", false, false, 1180, 1000),
    ] {
        let link = super::alerts::serve_alerts().await;
        browse_at(
            link,
            BrowserSettings { script, dark, width, height, ..BrowserSettings::default() },
            move |page| async move {
                page.open("?precision=3600").await;
                page.until_text("#raised", |line| line == "An alert is raised: quiet. See why").await;
                page.press("#raised a", Key::Enter).await;
                page.until_text("h1", |title| title == "Alerts").await;
                let first = "#rules .rule";
                page.until_text(first, |rule| rule.starts_with("Firing quiet")).await;
                page.press("#mute-1 summary", Key::Enter).await;
                page.press("#mute-1 [value=\"28800\"]", Key::Enter).await;
                page.until_text(first, |rule| rule.starts_with("Firing Muted until")).await;
                page.press("#test button", Key::Enter).await;
                page.until_text("#history", |history| history.contains("message delivery works")).await;
                if script {
                    // The page updates when the watch has delivered the message.
                    page.until_text("#live", |live| live == "Live").await;
                    page.until_text("#history tbody tr:nth-child(1)", |row| row.contains("Delivered")).await;
                    assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}");
                    let widths = page.run("return [document.documentElement.scrollWidth, innerWidth]").await;
                    assert_eq!(widths[0], widths[1], "{name} does not scroll sideways");
                    page.press("#rule-1 summary", Key::Enter).await;
                    assert_eq!(page.run(MUTE_ANOTHER_RULE_SCRIPT).await, json!(null));
                    page.until_text("#rules", |rules| rules.matches("Muted until").count() == 2).await;
                    assert_eq!(page.run("return document.getElementById('rule-1').open").await, json!(true));
                    assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}");
                    // The browser is in Tokyo, and the site is in UTC.
                    page.press("#mute-1 summary", Key::Enter).await;
                    let chosen = page.run(CHOOSE_TIME_SCRIPT).await;
                    page.press("#mute-1 form:nth-child(2) button", Key::Enter).await;
                    let until = format!("Firing Muted until {}", chosen.as_str().expect("a time"));
                    page.until_text(first, |rule| rule.starts_with(&until)).await;
                }
                page.save_screenshot(name).await;
                page.press("#rules .unmute button", Key::Enter).await;
                page.until_text(first, |rule| rule.starts_with("Firing quiet")).await;
                page.open("/counter?counter=%2F&precision=3600").await;
                page.until_text("#annotations", |told| told.contains("quiet raised: / has 0 hits, below 10"))
                    .await;
                page.save_screenshot(&format!("{name}-chart")).await;
            },
        )
        .await;
    }
}

/// Mutes another rule without the page. The focus leaves the table, because a table with the focus is not updated.
const MUTE_ANOTHER_RULE_SCRIPT: &str = r##"
document.activeElement.blur();
fetch("/admin/stats/api/alerts/silence?rule=busy&seconds=3600", { method: "POST" });
"##;

/// Chooses a time in two hours, and returns the time as the page shows it.
const CHOOSE_TIME_SCRIPT: &str = r##"
const at = new Date(Date.now() + 7200e3);
const local = new Date(at - at.getTimezoneOffset() * 60e3).toISOString();
document.getElementById("until-1").value = local.slice(0, 16);
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" }).format(at);
return `${day} ${local.slice(11, 16)}`;
"##;

/// Time axis labels that overlap the label to the left, or are cut off.
const AXIS_LABELS_SCRIPT: &str = r##"
const box = document.getElementById("lines").getBoundingClientRect();
const marks = [...document.querySelectorAll(".time")].filter((mark) => mark.checkVisibility());
const boxes = marks.map((mark) => [mark.textContent, mark.getBoundingClientRect()]);
return boxes.filter(([, at], place) =>
  at.left < box.left - 1 || at.right > box.right + 1 || (place && at.left < boxes[place - 1][1].right + 2)).map(([text]) => text);
"##;

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
const lines = document.getElementById("lines"), rows = [...document.getElementById("twin").rows].reverse();
const row = rows[lines.getAttribute("aria-valuenow")];
const at = (row) => Date.parse(row.querySelector("time").dateTime) / 1000;
return [at(row), at(rows.at(-1)), lines.getAttribute("aria-valuetext"),
  `${row.cells[0].textContent}, A hits: ${row.cells[1].textContent}`];
"##;

/// Accessibility rules for all pages. This returns the violations.
const ACCESSIBILITY_SCRIPT: &str = r##"
const wrong = [], say = (rule, element) => wrong.push(`${rule}: ${element.outerHTML.slice(0, 120)}`);
const all = (selector) => [...document.querySelectorAll(selector)];
const shown = (element) => element.checkVisibility() && element.getClientRects().length;
const name = (element) => element.getAttribute("aria-label")
  || (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent).join("")
  || element.labels?.[0]?.textContent || element.textContent;
if (!document.documentElement.lang) wrong.push("no language");
if (!document.title) wrong.push("no title");
if (all("h1").length !== 1) wrong.push("not one h1");
if (all("main").length !== 1) wrong.push("not one main");
let level = 0;
for (const heading of all("h1,h2,h3,h4")) {
  const next = +heading.localName[1];
  if (next > level + 1) say("a level is left out", heading);
  level = next;
}
const ids = all("[id]").map((element) => element.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice #${id}`);
for (const element of all("a[href], button, input:not([type=hidden]), nav, section, [role=img], [role=region], [role=slider], summary")) {
  if (shown(element) && !name(element).trim()) say("no name", element);
}
for (const chart of all("svg:not([aria-hidden]):not(svg svg)")) {
  if (!chart.getAttribute("aria-label")) say("a chart without a name", chart);
}
if (all("#lines").length && all("#twin tr").length !== all("#lines rect.column").length && all("#lines rect.column").length) wrong.push("a chart without its table");
const regions = new Set();
for (const region of all("nav, section[aria-labelledby], [role=region], [role=search]")) {
  const called = `${region.role || region.localName} ${name(region).trim()}`;
  if (regions.has(called)) say("a region named as another", region);
  regions.add(called);
}
for (const table of all("table")) {
  if (!table.querySelector("thead th[scope=col]")) say("no heads of columns", table);
  if (table.querySelector("tbody tr") && !table.querySelector("tbody th[scope=row]")) say("no heads of rows", table);
}
for (const link of all("a[href], button, summary")) {
  const box = link.getBoundingClientRect();
  // A page without a style has the sizes of the browser.
  if (document.styleSheets.length && shown(link) && link.matches(".chip, button, .toggle, .remove") && (box.height < 24 || box.width < 20)) say(`too small, ${box.width} by ${box.height}`, link);
}
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
};
const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour[3] === 1) return colour;
  }
  return [255, 255, 255, 1];
};
const contrast = (one, other) => {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
};
for (const element of all("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !shown(element)) continue;
  const style = getComputedStyle(element);
  const colour = rgba(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
  if (!element.closest("header, main, footer, .skip")) say("outside of all landmarks", element);
  const found = contrast(colour, behind(element));
  if (found < 4.5) say(`contrast ${found.toFixed(2)}`, element);
}
for (const line of all(".line, .mark path, .spark path, .over")) {
  const style = getComputedStyle(line);
  const found = contrast(rgba(line.matches(".over") ? style.fill : style.stroke), behind(line));
  if (found < 3) say(`contrast ${found.toFixed(2)}`, line);
}
for (const element of all("a[href], button, input:not([type=hidden]), summary, [tabindex='0']")) {
  if (!shown(element)) continue;
  element.focus({ focusVisible: true, preventScroll: true });
  if (document.activeElement !== element) say("takes no focus", element);
  if (getComputedStyle(element).outlineStyle === "none") say("its focus cannot be seen", element);
}
document.activeElement?.blur();
return wrong;
"##;
