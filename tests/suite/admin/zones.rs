//! Days in a time zone: with their real length, as sums of retained buckets.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use counter_admin::{Access, Options};
use counter_core::time::Retention;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Precisions, Store, Timestamp};
use http::StatusCode;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use tests::{FaultProxy, RedisServer, noon_offset};

use super::site::send;
use crate::support::{precision, store};

/// A site that retains hours for 450 days, quarter hours for 120 days, and days.
struct Site {
    counters: Counters,
    router: Router,
}

impl Site {
    fn over(store: impl Store + Clone, zone: &str, widths: &[(u32, u32)]) -> Self {
        let keep = |&(width, days): &(u32, u32)| Retention {
            precision: precision(width),
            samples: NonZeroU32::new(days * 86_400 / width).expect("not 0"),
        };
        let retained = Precisions::new(widths.iter().map(keep)).expect("a set");
        let counters = Counters::builder(store).precisions(retained.clone()).visitor_precisions(retained);
        let counters = counters.build().expect("a grid");
        let options = Options::new().time_zone(zone).expect("a zone");
        let admin = counter_admin::router_with(counters.stats(), Access::open(), options);
        Self { counters, router: Router::new().nest("/admin/stats", admin) }
    }

    fn new(zone: &str) -> Self {
        Self::over(MemoryStore::new(), zone, &[(900, 120), (3600, 450), (86_400, 450)])
    }

    fn record(&self, at: Timestamp, visitor: Option<u64>) {
        let recorder = self.counters.recorder();
        let visitor = visitor.map(|person| VisitorKey::new([7; 16]).visitor(&[&person.to_le_bytes()]));
        recorder.record_at(recorder.counter("hits"), visitor, at, NonZeroU32::MIN);
    }

    async fn page(&mut self, path: &str) -> String {
        self.counters.flush().await.expect("it takes all");
        let response = send(&self.router, &format!("/admin/stats{path}"), None).await;
        assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
        response.body
    }
}

fn unix(at: &Zoned) -> Timestamp {
    Timestamp::from_unix(u64::try_from(at.timestamp().as_second()).expect("after 1970"))
}

/// Returns the latest day in Berlin before this week that has this number of hours.
fn last_day_of(hours: i64) -> Zoned {
    let zone = TimeZone::get("Europe/Berlin").expect("a zone");
    let mut day = Zoned::now().with_time_zone(zone).start_of_day().expect("a day");
    for _ in 0..400 {
        let next = day.tomorrow().and_then(|next| next.start_of_day()).expect("a day");
        if next.timestamp().as_second() - day.timestamp().as_second() == hours * 3600
            && day.timestamp() < jiff::Timestamp::now() - (7 * 24).hours()
        {
            return day;
        }
        day = day.yesterday().and_then(|day| day.start_of_day()).expect("a day");
    }
    panic!("no day of {hours} hours in a year");
}

/// Returns the cells of the chart table, latest day first. Rows begin with the date.
fn rows(page: &str) -> Vec<Vec<String>> {
    let (_, table) = page.split_once("id=\"twin\"").expect("a table");
    let (table, _) = table.split_once("</tbody>").expect("its end");
    let rows = table.split("<tr>").skip(1).map(|row| {
        let cells = row
            .split(['<', '>'])
            .filter(|text| text.starts_with(|letter: char| letter.is_numeric() || letter == 'u'));
        cells.map(str::to_owned).collect()
    });
    rows.collect()
}

#[tokio::test]
async fn days_with_23_and_25_hours_are_the_sums_of_their_hours() {
    let mut site = Site::new("Europe/Berlin");
    for hours in [23, 25] {
        let day = last_day_of(hours);
        let (from, to) = (unix(&day).minus(24 * 3600), unix(&day).plus(3600 * (hours as u64 + 24)));
        for hour in 0..(to.as_unix() - from.as_unix()) / 3600 {
            // One visitor an hour. The same visitors return in the same hours of the next day.
            site.record(from.plus(3600 * hour), Some(hour % 24));
        }
        let path = format!("period=3d&to={to}&uniques=1");
        for path in [format!("?{path}"), format!("/parts?{path}"), format!("/counter?counter=hits&{path}")] {
            let page = site.page(&path).await;
            let date = |day: &Zoned| day.strftime("%-d %b").to_string();
            let expected =
                [(1, 24, 24), (0, hours, hours.min(24)), (-1, 24, 24)].map(|(days, hits, visitors)| {
                    let day = day.checked_add(days.days()).expect("a day");
                    let date = if day.year() == Zoned::now().year() {
                        date(&day)
                    } else {
                        day.strftime("%-d %b %Y").to_string()
                    };
                    vec![date, hits.to_string(), visitors.to_string()]
                });
            assert_eq!(rows(&page), expected, "{path}");
            assert!(page.contains("(3 days)"), "{path}: {page}");
        }
        // The previous chart ends at the start of this chart.
        let page = site.page(&format!("?{path}")).await;
        assert!(page.contains("Days are in Europe/Berlin, as sums of 1 h intervals."), "{page}");
        let earlier =
            page.split_once("id=\"earlier\"").expect("a link").1.split_once("to=").expect("an end").1;
        let earlier = earlier.split(|letter: char| !letter.is_numeric()).next().expect("a number");
        let end = |page: &str| {
            page.split_once("type=\"date\" name=\"to\" value=\"").expect("a day").1[..10].to_owned()
        };
        let before = site.page(&format!("?period=3d&to={earlier}")).await;
        let expected = day.checked_sub(1.day()).expect("a day").strftime("%Y-%m-%d").to_string();
        assert!(
            [expected.clone(), day.strftime("%Y-%m-%d").to_string()].contains(&end(&before)),
            "{earlier}: {expected}"
        );
        // The form names the last day.
        let named = format!("?period=1d&to={}", day.strftime("%Y-%m-%d"));
        assert_eq!(rows(&site.page(&named).await)[0][1], hours.to_string());
    }
}

#[tokio::test]
async fn a_zone_with_a_fractional_hour_offset_uses_quarter_hours() {
    let mut site = Site::new("Asia/Kolkata");
    let zone = TimeZone::get("Asia/Kolkata").expect("a zone");
    let day = Zoned::now()
        .with_time_zone(zone)
        .checked_sub(3.days())
        .expect("a day")
        .start_of_day()
        .expect("a day");
    site.record(unix(&day).minus(1), None);
    site.record(unix(&day), None);
    site.record(unix(&day).plus(86_399), None);
    let page = site.page(&format!("?period=2d&to={}", unix(&day).plus(86_400))).await;
    assert_eq!(rows(&page).iter().map(|row| row[1].clone()).collect::<Vec<_>>(), ["2", "1"]);
    assert!(page.contains("as sums of 15 min intervals"), "{page}");
}

#[tokio::test]
async fn a_short_or_unaligned_retention_is_reported() {
    // With five days of hours, there are at most five days.
    let mut site = Site::over(MemoryStore::new(), "Europe/Berlin", &[(3600, 5), (86_400, 120)]);
    let page = site.page("?period=30d").await;
    assert!((4..=5).contains(&rows(&page).len()), "{page}");
    // Retained buckets don't align with the days of this zone, so the stored days are used.
    let mut site = Site::over(MemoryStore::new(), "Asia/Kolkata", &[(3600, 5), (86_400, 120)]);
    let page = site.page("?period=30d").await;
    assert_eq!(rows(&page).len(), 30, "{page}");
    assert!(page.contains("Days in Asia/Kolkata are not available"), "{page}");
}

#[tokio::test]
async fn today_and_yesterday_start_at_midnight_in_the_zone() {
    // A zone where it is noon. The sign in these names is inverted.
    let offset = noon_offset() / 3600;
    let sign = if offset > 0 { '-' } else { '+' };
    let mut site = Site::new(&format!("Etc/GMT{sign}{}", offset.abs()));
    let now = Timestamp::now();
    let hour = precision(3600).bucket(now).start;
    let midnight = hour.minus(12 * 3600);
    for at in [midnight, midnight, midnight.plus(3600), midnight.minus(86_400), midnight.minus(1)] {
        site.record(at, Some(at.as_unix()));
    }
    let page = site.page("/counter?counter=hits").await;
    let card = |id: &str| {
        let (_, rest) = page.split_once(&format!("id=\"{id}\">")).expect("a number");
        rest.split_once("</dl>").expect("its end").0.to_owned()
    };
    // The comparison with yesterday is only up to noon.
    assert!(card("total").starts_with("3<") && card("total").contains("+200 %"), "{page}");
    assert!(page.contains("<dd class=\"big\">2</dd><dd>of this counter"), "{page}");
    let days = page.split_once("id=\"days\"").expect("a table").1;
    assert!(days.contains("3 so far") && days.contains(">2<"), "{days}");
}

#[tokio::test]
async fn a_page_with_days_of_a_zone_needs_two_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let retained = [(3600, 120), (86_400, 120)];
    let mut site = Site::over(store(&proxy.url()).await, "Europe/Berlin", &retained);
    site.record(Timestamp::now(), Some(1));
    site.page("").await;
    let path = "/counter?counter=hits&period=30d&uniques=1&ago=2592000";
    let mut fewest = u64::MAX;
    for pause in [200, 800, 3000] {
        proxy.reply_when_idle(Duration::from_millis(pause));
        let before = proxy.round_trips();
        site.page(path).await;
        fewest = fewest.min(proxy.round_trips() - before);
        if fewest <= 2 {
            break;
        }
    }
    assert!(fewest <= 2, "{fewest}");
}
