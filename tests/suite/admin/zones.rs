//! Days in a time zone: with their real length, as sums of retained buckets.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use axum::Router;
use counter_admin::{Access, Options};
use counter_core::time::Retention;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, MemoryStore, Precisions, Store, Timestamp};
use http::StatusCode;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use tests::{FaultProxy, RedisServer, noon_offset};

use super::site::{card, send, text};
use crate::support::{precision, store};

/// The zones to test with a real store: without daylight saving time, with it, and with half an hour of it.
const ZONES: [&str; 4] = ["Asia/Kolkata", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"];

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

    /// Creates a site with the default buckets for the days of a zone.
    fn of_days(store: impl Store + Clone, zone: &str) -> Self {
        let days = counter_admin::local_days(zone).expect("a zone");
        let counters = Counters::builder(store).local_days(days).expect("few precisions").build();
        let counters = counters.expect("a grid");
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

/// Returns the sum of the first line.
fn shown_total(page: &str) -> String {
    text(page, "sum-0", "</span>")
}

/// Returns the cells of the chart table, latest day first. Rows begin with the date.
fn rows(page: &str) -> Vec<Vec<String>> {
    let (_, table) = page.split_once("id=\"twin-head\"").expect("a table");
    let (table, _) = table.split_once("</table>").expect("its end");
    let rows = table.split("<tr>").skip(2).map(|row| {
        let cells = row
            .split(['<', '>'])
            .filter(|text| text.starts_with(|letter: char| letter.is_numeric() || letter == '–'));
        cells.map(str::to_owned).collect()
    });
    rows.collect()
}

#[tokio::test]
async fn days_with_23_and_25_hours_are_the_sums_of_their_hours() {
    let mut site = Site::new("Europe/Berlin");
    for hours in [23, 25] {
        let day = last_day_of(hours);
        let date = |day: &Zoned, days: i64| {
            day.checked_add(days.days()).expect("a day").strftime("%Y-%m-%d").to_string()
        };
        let (from, to) = (unix(&day).minus(24 * 3600), unix(&day).plus(3600 * (hours as u64 + 24)));
        for hour in 0..(to.as_unix() - from.as_unix()) / 3600 {
            // One visitor an hour. The same visitors return in the same hours of the next day.
            site.record(from.plus(3600 * hour), Some(hour % 24));
        }
        let around = [-1, 0, 1].map(|days| day.checked_add(days.days()).expect("a day"));
        let dates = |days: i64| format!("from={}&to={}", date(&around[0], days), date(&around[2], days));
        let path = format!("period=custom&{}&by=day&show=hits&compare=none", dates(0));
        for path in [format!("?{path}"), format!("/parts?{path}"), format!("/counter?counter=hits&{path}")] {
            let page = site.page(&path).await;
            let is_of_this_year =
                around[0].year() == Zoned::now().with_time_zone(day.time_zone().clone()).year();
            let format = if is_of_this_year { "%-d %b" } else { "%-d %b %Y" };
            let row = |day: &Zoned, hits: i64| vec![day.strftime(format).to_string(), hits.to_string()];
            let [before, day, after] = &around;
            assert_eq!(rows(&page), [row(after, 24), row(day, hours), row(before, 24)], "{path}");
            assert_eq!(shown_total(&page), (hours + 48).to_string(), "{path}");
            if path.contains("parts") {
                continue;
            }
            let page = site.page(&path.replace("show=hits", "show=people")).await;
            assert_eq!(rows(&page), [row(after, 24), row(day, hours.min(24)), row(before, 24)], "{path}");
            assert_eq!(shown_total(&page), "24", "{path}");
        }
        let page = site.page(&format!("?{path}")).await;
        assert!(page.contains("<p>Days are in Europe/Berlin. "), "{page}");
        assert!(card(&page, "people").starts_with("People 24"), "{page}");
        // The previous chart ends at the start of this chart.
        let earlier = page.split_once("id=\"earlier\"").expect("a link").1;
        assert!(earlier.contains(&dates(-3).replace('&', "&#38;")), "{earlier}");
        // The form names days, and a chart by hour has as many hours.
        let hourly = format!("?period=custom&from={0}&to={0}&by=hour&show=hits&compare=none", date(&day, 0));
        let page = site.page(&hourly).await;
        let hours = hours.to_string();
        assert_eq!((rows(&page).len().to_string(), shown_total(&page)), (hours.clone(), hours));
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
    let (from, to) = (unix(&day).minus(86_400), unix(&day).plus(86_400));
    let page = site.page(&format!("?period=custom&from={from}&to={to}&by=day&compare=none")).await;
    assert_eq!(rows(&page).iter().map(|row| row[1].clone()).collect::<Vec<_>>(), ["2", "1"]);
    assert!(page.contains("<p>Days are in Asia/Kolkata. "), "{page}");
    // Hours of the store start in the middle of hours in this zone.
    let intervals = ["by-15-min", "by-hour", "by-day"].map(|id| page.contains(&format!("id=\"{id}\"")));
    assert_eq!(intervals, [true, false, true], "{page}");
}

#[tokio::test]
async fn a_short_or_unaligned_retention_is_reported() {
    // With five days of hours, there are at most five days in this zone.
    let mut site = Site::over(MemoryStore::new(), "Europe/Berlin", &[(3600, 5), (86_400, 120)]);
    let page = site.page("?period=4d&by=day").await;
    assert_eq!(rows(&page).len(), 4, "{page}");
    assert!(page.contains("<p>Days are in Europe/Berlin. "), "{page}");
    // The stored days are used for longer periods, and if retained buckets don't align with the days of the zone.
    for (zone, period) in [("Europe/Berlin", "30d"), ("Asia/Kolkata", "30d"), ("Asia/Kolkata", "4d")] {
        let mut site = Site::over(MemoryStore::new(), zone, &[(3600, 5), (86_400, 120)]);
        let page = site.page(&format!("?period={period}&by=day")).await;
        assert_eq!(format!("{}d", rows(&page).len()), period, "{page}");
        assert!(page.contains(&format!("Days in {zone} are not available")), "{page}");
    }
}

#[tokio::test]
async fn weeks_and_months_are_those_of_the_zone() {
    let mut site = Site::new("Europe/Berlin");
    let zone = TimeZone::get("Europe/Berlin").expect("a zone");
    let month = Zoned::now().with_time_zone(zone).first_of_month().expect("a day");
    let month = month.checked_sub(2.months()).and_then(|day| day.start_of_day()).expect("a month");
    // In UTC, these are in the month before.
    site.record(unix(&month), None);
    site.record(unix(&month).plus(1800), None);
    site.record(unix(&month).minus(1), None);
    let page = site.page("?period=4mo&by=month&compare=none").await;
    let counts: Vec<_> = rows(&page).iter().map(|row| row[1].clone()).collect();
    assert_eq!(counts[1..], ["0", "2", "1"], "{page}");
    let monday = month.checked_add(((8 - i64::from(month.weekday().to_monday_one_offset())) % 7).days());
    let monday = monday.expect("a day");
    site.record(unix(&monday), None);
    site.record(unix(&monday).minus(1), None);
    let page = site.page("?period=4mo&by=week&compare=none").await;
    let week = monday.strftime("%-d %b").to_string();
    let row = rows(&page).into_iter().find(|row| row[0].starts_with(&week));
    assert_eq!(row.expect("a week")[1], if monday == month { "3" } else { "1" }, "{page}");
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
    // The comparison with yesterday is only up to noon.
    assert_eq!(card(&page, "total"), "Hits 3 +200 %", "{page}");
    assert_eq!(card(&page, "people"), "People 2 +100 %", "{page}");
    let page = site.page("/counter?counter=hits&period=yesterday").await;
    assert_eq!(card(&page, "total"), "Hits 2", "{page}");
    let page = site.page("/counter?counter=hits&period=2d&by=day&show=hits&compare=none").await;
    assert_eq!(rows(&page).iter().map(|row| row[1].clone()).collect::<Vec<_>>(), ["3 so far", "2"]);
}

#[tokio::test]
async fn a_page_with_days_of_a_zone_needs_two_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let retained = [(3600, 120), (86_400, 120)];
    let mut site = Site::over(store(&proxy.url()).await, "Europe/Berlin", &retained);
    site.record(Timestamp::now(), Some(1));
    assert!(site.page("?period=30d").await.contains("Days are in Europe/Berlin."));
    let path = "/counter?counter=hits&period=30d&show=people&compare=previous";
    let call =
        async || send(&site.router, &format!("/admin/stats{path}"), None).await.status == StatusCode::OK;
    let fewest = proxy.fewest_round_trips(2, call).await;
    assert!(fewest <= 2, "{fewest}");
}

/// Returns a number of a card, e.g. of `Hits 1,234 −`.
fn number(page: &str, id: &str) -> u64 {
    let shown = card(page, id);
    let number = shown.split(' ').nth(1).unwrap_or_default().replace(',', "");
    number.parse().unwrap_or_else(|_| panic!("{id}: {shown} in {page}"))
}

/// The hits of a test: the date, and the visitor.
type Recorded = Vec<(Date, u64)>;

/// Records hits on 100 days: on each day, a visitor just after midnight who returns just before the next, and another
/// one in the first quarter of an hour.
fn record_days(site: &Site, today: &Zoned) -> Recorded {
    let start = |ago: i64| {
        let date = today.date().checked_sub(ago.days()).expect("a date");
        (date, unix(&date.to_zoned(today.time_zone().clone()).expect("a day")))
    };
    let mut recorded = Vec::new();
    for ago in 0..100 {
        let ((date, first), (_, next)) = (start(ago), start(ago - 1));
        let visitor = 2 * ago.unsigned_abs();
        for (at, visitor) in [(first, visitor), (next.minus(1), visitor), (first.plus(899), visitor + 1)] {
            if at <= unix(today) {
                site.record(at, Some(visitor));
                recorded.push((date, visitor));
            }
        }
    }
    recorded
}

/// Compares a page to the hits on these dates, and returns the differences.
async fn differences(site: &mut Site, query: &str, dates: [Date; 2], recorded: &Recorded) -> Option<String> {
    let page = site.page(&format!("?{query}&compare=none")).await;
    let within = || recorded.iter().filter(|(date, _)| (dates[0]..=dates[1]).contains(date));
    let expected =
        (within().count() as u64, within().map(|(_, visitor)| visitor).collect::<BTreeSet<_>>().len() as u64);
    let found = (card(&page, "total"), card(&page, "people"));
    let number = |shown: &str| shown.split(' ').nth(1)?.replace(',', "").parse::<u64>().ok();
    let is_right = number(&found.0) == Some(expected.0)
        && number(&found.1).is_some_and(|visitors| visitors.abs_diff(expected.1) <= expected.1 / 50);
    (!is_right).then(|| format!("{query}: {found:?} instead of {expected:?}"))
}

#[tokio::test]
async fn periods_have_the_hits_and_visitors_of_local_days() {
    let redis = RedisServer::start();
    for zone in ZONES {
        let now = || Zoned::now().with_time_zone(TimeZone::get(zone).expect("a zone"));
        // Again, if a day ends in the meantime.
        loop {
            redis.command(&["FLUSHALL"]);
            let mut site = Site::of_days(store(&redis.url()).await, zone);
            let today = now();
            let recorded = record_days(&site, &today);
            let date = |ago: i64| today.date().checked_sub(ago.days()).expect("a date");
            let custom = |from: i64, to: i64| format!("period=custom&from={}&to={}", date(from), date(to));
            let mut wrong = Vec::new();
            for (query, from, to) in [
                ("period=today".to_owned(), 0, 0),
                ("period=yesterday".to_owned(), 1, 1),
                ("period=7d".to_owned(), 6, 0),
                ("period=30d".to_owned(), 29, 0),
                ("period=12mo".to_owned(), 99, 0),
                ("period=all".to_owned(), 99, 0),
                (custom(12, 1), 12, 1),
                (custom(60, 20), 60, 20),
            ] {
                wrong.extend(differences(&mut site, &query, [date(from), date(to)], &recorded).await);
            }
            let shown = |metric: &str| format!("?{}&by=day&show={metric}&compare=none", custom(99, 1));
            let hits = rows(&site.page(&shown("hits")).await);
            let shown = rows(&site.page(&shown("people")).await);
            // A shorter day may include the first hour of the next one, but not more people than hits.
            let is_right = |(hits, people): &(&Vec<String>, &Vec<String>)| {
                hits[1] == "3" && ["2", "3"].contains(&&*people[1]) && hits[0] == people[0]
            };
            wrong.extend(hits.iter().zip(&shown).filter(|row| !is_right(row)).map(|row| format!("{row:?}")));
            if now().date() == today.date() {
                assert!(wrong.is_empty() && shown.len() == 99, "{zone}: {wrong:?}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_store_without_the_days_of_the_zone_shows_the_same_dates_in_utc() {
    let mut site = Site::over(MemoryStore::new(), "Asia/Kolkata", &[(3600, 5), (86_400, 120)]);
    let zone = TimeZone::get("Asia/Kolkata").expect("a zone");
    let today = Zoned::now().with_time_zone(zone).date();
    let date = |ago: i64| today.checked_sub(ago.days()).expect("a date");
    let page = site.page(&format!("?period=custom&from={}&to={}&by=day", date(20), date(9))).await;
    assert_eq!(rows(&page).len(), 12, "{page}");
    let words = text(&page, "other-days", "</p>");
    assert!(words.contains("Days in Asia/Kolkata are not available"), "{words}");
    assert!(words.contains("These are days of UTC."), "{words}");
}

#[tokio::test]
async fn visitors_are_never_above_the_hits() {
    let mut site = Site::new("UTC");
    let (now, recorder) = (Timestamp::now(), site.counters.recorder());
    for page in 0..40 {
        let counter = recorder.counter(&format!("/p{page}"));
        for person in 0..400_u64 {
            let visitor = VisitorKey::new([7; 16]).visitor(&[&[page], &person.to_le_bytes()]);
            recorder.record_at(counter, Some(visitor), now, NonZeroU32::MIN);
        }
    }
    site.counters.flush().await.expect("it takes all");
    let estimates = site.counters.stats();
    let response = send(&site.router, "/admin/stats/list.csv?period=7d", None).await;
    let shown: Vec<u64> = response
        .body
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(1).expect("visitors").parse().expect("a number"))
        .collect();
    assert_eq!((shown.len(), shown.iter().max()), (40, Some(&400)), "{}", response.body);
    let mut above = 0;
    for page in 0..40 {
        let name = format!("/p{page}");
        let day = precision(86_400);
        let counter = [name.parse().expect("a name")];
        let estimate =
            estimates.uniques(&counter, day, now.minus(86_400)..now.plus(1)).await.expect("readable");
        above += u64::from(estimate.visitors > 400);
        let page = site.page(&format!("/counter?counter=%2Fp{page}&period=7d&by=day&show=people")).await;
        assert!(number(&page, "people") <= 400, "{page}");
        assert!(
            rows(&page)[0][1].trim_end_matches(" so far").parse::<u64>().expect("a number") <= 400,
            "{page}"
        );
    }
    assert!(above > 0, "no estimate is above the hits");
}
