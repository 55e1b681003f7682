//! Choosing a period and a comparison.

use tests::browser::{BrowserSettings, Key, browse};

/// The number of buckets in the chart.
const BUCKETS_SCRIPT: &str = "return document.querySelectorAll('#twin tbody tr').length";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_period_can_be_chosen_by_keyboard_with_or_without_javascript() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("").await;
            for (id, period, title, buckets) in [
                ("#period-last-hour", "Last hour", "Hits per minute", 60),
                ("#period-yesterday", "Yesterday", "Hits per hour", 24),
                ("#period-7-days", "7 days", "People per day", 7),
                ("#period-30-days", "30 days", "People per day", 30),
            ] {
                page.choose("#period-menu", id).await;
                page.until_text("#period-menu > summary", |shown| shown.starts_with(period)).await;
                assert_eq!(page.text("#chart-title").await, title);
                assert_eq!(page.run(BUCKETS_SCRIPT).await, buckets);
                if script {
                    let focus = "return document.activeElement.matches('#period-menu > summary')";
                    assert_eq!(page.run(focus).await, true, "the focus stays");
                }
            }
            page.until_text("#sums", |sums| sums.contains(" to now vs. ")).await;
            assert!(page.address().await.ends_with("/admin/stats?period=30d"));
            page.press("#earlier", Key::Enter).await;
            page.until_text("#sums", |sums| !sums.contains("to now")).await;
            assert!(page.address().await.contains("?period=custom&from="));
            assert_eq!(page.run(BUCKETS_SCRIPT).await, 30);
            page.press("#later", Key::Enter).await;
            page.until_text("#period-menu > summary", |shown| shown.starts_with("30 days")).await;
            page.press("#by-week", Key::Enter).await;
            page.until_text("#chart-title", |shown| shown == "People per week").await;
            assert!(page.address().await.ends_with("/admin/stats?period=30d&by=week"));
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_custom_period_can_be_chosen_with_or_without_javascript() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("?period=7d&compare=none").await;
            page.press("#period-menu > summary", Key::Enter).await;
            // The form starts with the current period. How a date is typed depends on the locale.
            let shorten = "const [from, to] = ['from', 'to'].map((id) => document.getElementById(id));
                const first = from.value, day = new Date(Date.parse(from.value) + 2 * 86_400_000);
                to.value = day.toISOString().slice(0, 10);
                return [first, to.value]";
            let dates = page.run(shorten).await;
            let [from, to] = [0, 1].map(|place| dates[place].as_str().expect("a date").to_owned());
            let day = |date: &str| date.parse::<jiff::civil::Date>().expect("a date").strftime("%-d %b").to_string();
            // A year is only shown if it is not the current one.
            let days = [&from, &to].map(|date| day(date));
            page.press(".custom button", Key::Enter).await;
            page.until_text("#period-menu > summary", |shown| days.iter().all(|day| shown.contains(day)))
                .await;
            let address = page.address().await;
            assert!(address.contains(&format!("period=custom&from={from}&to={to}")), "{address}");
            assert!(address.contains("compare=none"), "{address}");
            // The days of this site start at a different time than those of its time zone.
            let early = format!(
                "return (Date.parse('{from}') - Date.parse([...document.querySelectorAll('#twin time')].at(-1).dateTime)) / 3_600_000"
            );
            let hours = page.run(&early).await;
            assert!(hours.as_f64().is_some_and(|hours| (-12.0..=12.0).contains(&hours)), "{hours}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_period_survives_a_visit_to_a_counter_page() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("").await;
            page.choose("#period-menu", "#period-30-days").await;
            page.until_text("#period-menu > summary", |shown| shown.starts_with("30 days")).await;
            page.press("#rows a[href*='%2Farticles&']", Key::Enter).await;
            page.until_text("h1", |title| title == "/articles").await;
            assert!(page.address().await.ends_with("/counter?counter=%2Farticles&period=30d"));
            assert!(page.text("#period-menu > summary").await.starts_with("30 days"));
            assert_eq!(page.run(BUCKETS_SCRIPT).await, 30);
            page.press(".crumb a", Key::Enter).await;
            page.until_text("h1", |title| title == "Visits").await;
            assert!(page.address().await.ends_with("/admin/stats?period=30d"));
            page.run("history.back()").await;
            page.until_text("h1", |title| title == "/articles").await;
            page.until_text("#period-menu > summary", |shown| shown.starts_with("30 days")).await;
            page.run("history.back()").await;
            page.until_text("h1", |title| title == "Visits").await;
            page.until_text("#period-menu > summary", |shown| shown.starts_with("30 days")).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_can_be_chosen_by_keyboard_with_or_without_javascript() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("?period=24h").await;
            page.until_text(".legend ul", |legend| legend.contains("B people (previous)")).await;
            page.until_text("#sums", |sums| sums.contains(" vs. ")).await;
            page.choose("#compare-menu", "#compare-no-comparison").await;
            page.until_text(".legend ul", |legend| !legend.contains("(previous)")).await;
            page.until_text("#sums", |sums| !sums.contains(" vs. ")).await;
            assert!(page.address().await.ends_with("?period=24h&compare=none"));
            assert!(page.text("#compare-menu > summary").await.starts_with("No comparison"));
            page.choose("#compare-menu", "#compare-vs--previous-period").await;
            page.until_text(".legend ul", |legend| legend.contains("B people (previous)")).await;
            assert!(page.address().await.ends_with("?period=24h"));
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_shows_its_series_in_the_chart() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("?period=24h&compare=none").await;
        page.press("#card-errors a", Key::Enter).await;
        page.until_text(".legend ul", |legend| legend.contains("A status:5xx")).await;
        page.press("#card-people a", Key::Enter).await;
        page.until_text(".legend ul", |legend| legend.contains("A people")).await;
        page.press("#card-views a", Key::Enter).await;
        page.until_text(".legend ul", |legend| legend.contains("A views 7")).await;
        page.press("#card-p90 a", Key::Enter).await;
        page.until_text(".legend ul", |legend| legend.contains("A p90")).await;
    })
    .await;
}
