//! The forecasts of the admin router.

use counter_core::Timestamp;
use http::StatusCode;

use super::dashboard::Site;
use super::site::{fetch, send, site, site_at_noon};

#[tokio::test]
async fn a_forecast_has_a_band_and_reports_past_errors() {
    let mut site = site_at_noon();
    let days = site.counters.stats().grid().counts.of_width(86_400).expect("days are kept").precision;
    let now = Timestamp::now();
    // The count is the same on all days except for an anomaly.
    for day in 0..96 {
        let hits = if day == 30 { 400 } else { 20 };
        site.record("hits", now.minus(day * 86_400), hits).await;
    }
    let response = fetch(&site.router, "forecast?counter=hits&precision=86400&horizon=6").await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.body);
    let forecast = response.json();
    let points = forecast["points"].as_array().expect("points");
    assert_eq!(points.len(), 6);
    let today = days.bucket(now).start.as_unix();
    for (n, point) in (0..).zip(points) {
        assert_eq!(point["start"].as_u64(), Some(today + n * 86_400));
        let (lower, upper) =
            (point["lower"].as_u64().expect("a count"), point["upper"].as_u64().expect("a count"));
        let expected = point["expected"].as_f64().expect("a number");
        assert!((expected - 20.0).abs() < 1.0 && lower <= 20 && upper >= 20, "{point}");
    }
    let unusual = forecast["unusual"].as_array().expect("samples");
    assert_eq!(unusual.iter().map(|sample| sample["count"].as_u64()).collect::<Vec<_>>(), [Some(400)]);
    assert!(forecast["backtest"]["folds"].as_u64() > Some(0), "{forecast}");
}

#[tokio::test]
async fn a_forecast_without_enough_history_reports_the_reason() {
    let mut site = site();
    site.record("hits", Timestamp::now(), 1).await;
    let short = fetch(&site.router, "forecast?counter=hits&precision=3600").await;
    assert_eq!(short.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        short.json()["detail"].as_str().is_some_and(|words| words.contains("finished buckets")),
        "{}",
        short.body
    );
    let stranger = fetch(&site.router, "forecast?counter=nobody&precision=3600").await;
    assert_eq!(stranger.status, StatusCode::NOT_FOUND);
    for horizon in ["0", "501", "x"] {
        let rejected =
            fetch(&site.router, &format!("forecast?counter=hits&precision=3600&horizon={horizon}")).await;
        assert_eq!(
            (rejected.status, &rejected.json()["parameter"]),
            (StatusCode::BAD_REQUEST, &"horizon".into())
        );
    }
}

#[tokio::test]
async fn a_page_forecasts_only_intervals_of_the_store() {
    let mut site = site_at_noon();
    for day in 0..30 {
        site.record("hits", Timestamp::now().minus(day * 86_400), 20).await;
    }
    for (by, is_available) in [("day", true), ("week", false)] {
        let path = format!("/admin/stats?period=30d&by={by}&forecast=1");
        let page = send(&site.router, &path, None).await.body;
        let words = ["Forecast from 29 complete values", "Forecasts are only available for intervals that"];
        assert_eq!(words.map(|words| page.contains(words)), [is_available, !is_available], "{page}");
    }
}

#[tokio::test]
async fn the_chart_shows_a_forecast_and_anomalies_on_request() {
    let mut site = Site::new();
    let today = site.today();
    for ago in 1..=100 {
        site.record("hits", today.minus(86_400 * ago), if ago == 30 { 900 } else { 20 });
    }
    site.flush().await;
    let with_forecast = site.page("?period=60d&forecast=1&compare=none").await;
    for part in [
        "Forecast from 100 complete values",
        "MASE",
        "One past value, marked ◇, was unusual.",
        "<td>900, unusual</td>",
        "<th scope=\"col\" class=\"number expected\"><bdi>hits (forecast)</bdi></th>",
        "class=\"mark\"",
        "class=\"band\"",
        "hits (forecast) for the next 14",
        "aria-current=\"true\">Forecast</a>",
    ] {
        assert!(with_forecast.contains(part), "{part} in {with_forecast}");
    }
    assert_eq!(
        with_forecast.matches("<td>still to come</td><td>20 (20 to 20)</td>").count(),
        14,
        "{with_forecast}"
    );
    assert_eq!(
        site.page("/parts?period=60d&forecast=1").await.matches("id=\"outlook\" data-part").count(),
        1
    );
    // A past time is displayed without a forecast, but with marked anomalies.
    let past = format!(
        "?period=custom&from={}&to={}&forecast=1",
        today.minus(50 * 86_400),
        today.minus(20 * 86_400)
    );
    let past = site.page(&past).await;
    assert!(past.contains("900, unusual") && !past.contains("still to come"), "{past}");
    let usual = site.page("?period=60d&compare=none").await;
    for part in ["expected", "unusual", "class=\"band\"", "id=\"outlook\""] {
        assert!(!usual.contains(part), "{part} in {usual}");
    }
}

#[tokio::test]
async fn a_short_history_is_reported_instead_of_a_forecast() {
    let mut site = Site::new();
    site.record("hits", site.today().minus(5 * 86_400), 7);
    site.flush().await;
    let page = site.page("?period=60d&forecast=1&compare=none").await;
    let reason = "No forecast yet: a forecast needs 20 finished buckets, but there are only 5.";
    assert!(page.contains(reason) && !page.contains("still to come"), "{page}");
    assert_eq!(site.get("?forecast=1&counter=nobody").await.status, StatusCode::NOT_FOUND);
}
