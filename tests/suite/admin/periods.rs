//! The period and the comparison of a page apply to every number.

use std::num::NonZeroU32;

use counter_core::Timestamp;
use counter_core::visitor::VisitorKey;
use http::{StatusCode, header};

use tests::noon_offset;

use super::dashboard::Site;

const DAY: u64 = 86_400;

/// Creates a site with `30 - ago` hits, visitors and errors on each of the last 30 days, and ten times as many
/// on the 30 days before.
async fn site() -> Site {
    let mut site = Site::new();
    let (today, recorder, key) = (site.today(), site.counters.recorder(), VisitorKey::new([7; 16]));
    let hits = recorder.counter("hits");
    let (page, ok, error) =
        (recorder.counter("/a"), recorder.counter("status:2xx"), recorder.counter("status:5xx"));
    for ago in 0..60_u64 {
        let number = if ago < 30 { 30 - ago } else { 10 * (60 - ago) };
        for person in 0..number {
            let visitor = key.visitor(&[&ago.to_le_bytes(), &person.to_le_bytes()]);
            recorder.record_at(hits, Some(visitor), today.minus(DAY * ago), NonZeroU32::MIN);
        }
        let number = NonZeroU32::new(u32::try_from(number).expect("small")).expect("not 0");
        for counter in [page, ok, error] {
            recorder.record_at(counter, None, today.minus(DAY * ago), number);
        }
    }
    site.flush().await;
    site
}

/// Returns the text of the element with this id, without tags.
fn text(page: &str, id: &str) -> String {
    let (before, rest) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("{id} in {page}"));
    let tag = before.rsplit_once('<').expect("the start of a tag").1.split(' ').next().expect("a name");
    let (_, rest) = rest.split_once('>').expect("the end of a tag");
    let (text, _) = rest.split_once(&format!("</{tag}>")).expect("the end of an element");
    let words: String = text.split('<').map(|part| part.split_once('>').map_or(part, |it| it.1)).collect();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn all_numbers_of_a_page_are_of_its_period() {
    let site = site().await;
    let today = site.today();
    for (query, hits, change) in [
        ("period=today", 30, "+3 %"),
        ("period=yesterday", 29, "+4 %"),
        ("period=7d", 30 + 29 + 28 + 27 + 26 + 25 + 24, "+"),
        ("period=30d", 465, "−"),
        (
            &format!("period=custom&from={}&to={}", today.minus(9 * DAY), today.minus(7 * DAY)),
            21 + 22,
            "+10 %",
        ),
    ] {
        let page = site.page(&format!("?{query}")).await;
        assert_eq!(text(&page, "total"), hits.to_string(), "{query}");
        // Of the day before a longer period, only a part has passed, and it is not kept by hour.
        let card = text(&page, "card-total");
        assert!(card.contains(change), "{query}: {card}");
        assert!(text(&page, "card-errors").starts_with("Errors 50.0 %"), "{query}");
        let rows = text(&page, "rows");
        assert!(rows.contains("/a") && rows.contains(&hits.to_string()), "{query}: {rows}");
        assert!(text(&page, "statuses").starts_with(&format!("2xx {hits} 50.0 %")), "{query}");
        let own = site.page(&format!("/counter?counter=%2Fa&{query}")).await;
        assert_eq!(
            (text(&own, "total"), text(&own, "part")),
            (hits.to_string(), "100.0 %".to_owned()),
            "{query}"
        );
        let visitors: u64 = text(&page, "people").replace(',', "").parse().expect("a number");
        assert!(visitors.abs_diff(hits) <= 3 + hits / 50, "{visitors} of {hits}: {query}");
    }
}

#[tokio::test]
async fn a_site_or_page_that_began_in_the_compared_period_has_no_change() {
    // Days since the site and a newer page began, the period, and whether both have a change.
    for (site_days, page_days, period, changes) in [
        (9_u64, 9, "7d", [false, false]),
        (35, 35, "30d", [false, false]),
        (35, 9, "7d", [true, false]),
        (35, 15, "7d", [true, true]),
        (70, 70, "30d", [true, true]),
    ] {
        let mut site = Site::new();
        let (today, recorder, key) = (site.today(), site.counters.recorder(), VisitorKey::new([7; 16]));
        let hits = ["hits", "/a", "label:referrer:a.example"].map(|name| recorder.counter(name));
        let ten = NonZeroU32::new(10).expect("not 0");
        for ago in 0..site_days {
            for counter in hits {
                let visitor = Some(key.visitor(&[&ago.to_le_bytes()]));
                recorder.record_at(counter, visitor, today.minus(DAY * ago), ten);
            }
        }
        for ago in 0..page_days {
            recorder.record_at(recorder.counter("/new"), None, today.minus(DAY * ago), ten);
        }
        site.flush().await;
        let page = site.page(&format!("?period={period}")).await;
        let case = format!("{period} after {site_days} and {page_days} days");
        for id in ["card-total", "card-people", "sum-0", "label-referrer"] {
            let shown = text(&page, id);
            let change = shown.replace("100.0 %", "").contains('%');
            assert_eq!(change, changes[0], "{id}, {case}: {shown}");
        }
        let began = text(&page, "sums").contains("Counted since ");
        assert_eq!(began, !changes[0], "{case}: {}", text(&page, "sums"));
        let rows = text(&page, "rows");
        let (before, rest) = rows.split_once("/new").expect("a row");
        let (old, new) = if before.contains("/a") {
            (before, rest)
        } else {
            (rest, rest.split_once("/a").expect("a row").0)
        };
        for (row, has_change) in [(old, changes[0]), (new, changes[1])] {
            assert_eq!(
                row.replace("100.0 %", "").replace("100 %", "").contains('%'),
                has_change,
                "{case}: {rows}"
            );
        }
    }
}

#[tokio::test]
async fn links_of_a_page_keep_the_period_and_the_comparison() {
    let site = site().await;
    let page = site.page("?period=30d&compare=year&zone=local").await;
    let links = page.split("href=\"").skip(1).map(|rest| rest.split_once('"').expect("its end").0);
    let views: Vec<_> = links.filter(|link| link.contains('?') && !link.contains("assets")).collect();
    assert!(views.len() > 20, "{views:?}");
    let (mut others, mut zones) = (0, 0);
    for link in views {
        assert!(link.contains("period="), "{link}");
        others += usize::from(!link.contains("period=30d"));
        zones += usize::from(!link.contains("zone=local"));
    }
    // Only the menu and the arrow link to other periods. A chart of days is only shown in the time zone of the site.
    let other_choices = page.matches("<a id=\"period-").count() - 1;
    assert_eq!((others, zones), (other_choices + 1, 0));
    // The form for other days keeps the comparison as well.
    let (_, form) = page.split_once("class=\"custom\"").expect("a form");
    let (form, _) = form.split_once("</form>").expect("its end");
    assert!(
        form.contains("name=\"compare\" value=\"year\"") && form.contains("name=\"period\" value=\"custom\"")
    );
}

#[tokio::test]
async fn the_default_period_is_today_or_the_last_week() {
    let mut site = Site::new();
    let chosen = |page: &str| {
        let (_, menu) = page.split_once("id=\"period-menu\"").expect("a menu");
        let (_, title) = menu.split_once("<summary class=\"button\">").expect("a title");
        title.split_once('<').expect("its end").0.to_owned()
    };
    let empty = site.page("").await;
    assert!(empty.contains("No requests yet"), "{empty}");
    site.record("hits", site.today().minus(2 * DAY), 7);
    site.flush().await;
    let page = site.page("").await;
    assert_eq!((chosen(&page).as_str(), text(&page, "total").as_str()), ("7 days", "7"));
    assert!(!page.contains("No requests yet"), "{page}");
    site.record("hits", Timestamp::now(), 2);
    site.flush().await;
    let page = site.page("").await;
    assert_eq!((chosen(&page).as_str(), text(&page, "total").as_str()), ("Today", "2"));
    assert_eq!(chosen(&site.page("?period=yesterday").await), "Yesterday");
    let quiet = site.page("?period=yesterday").await;
    assert!(quiet.contains("No hits in this period"), "{quiet}");
}

#[tokio::test]
async fn arrows_move_by_a_period() {
    let site = site().await;
    let step = |page: &str, id: &str| {
        let (before, _) = page.split_once(&format!("id=\"{id}\""))?;
        let (_, rest) = page[before.len()..].split_once("href=\"")?;
        let link = rest.split_once('"').expect("its end").0;
        Some(link.strip_prefix("/admin/stats").expect("the router").replace("&#38;", "&"))
    };
    let today = site.page("?period=today").await;
    assert_eq!(step(&today, "later"), None);
    let yesterday = step(&today, "earlier").expect("a link");
    assert_eq!(yesterday, "?period=yesterday");
    let yesterday = site.page(&yesterday).await;
    assert_eq!(step(&yesterday, "later").as_deref(), Some("?period=today"));
    let week = site.page("?period=7d").await;
    let before = site.page(&step(&week, "earlier").expect("a link")).await;
    assert_eq!(text(&before, "total"), (17 + 18 + 19 + 20 + 21 + 22 + 23).to_string());
    assert_eq!(step(&before, "later").as_deref(), Some("?period=7d"));
}

#[tokio::test]
async fn the_compared_period_is_a_line_with_known_values_only() {
    let site = site().await;
    let cells = |page: &str, row: usize| {
        let (_, table) = page.split_once("</caption>").expect("a table");
        let row = table.split("<tr>").nth(row + 2).expect("a row");
        let cells = row.split("<td>").skip(1);
        cells.map(|cell| cell.split_once("</td>").expect("its end").0.to_owned()).collect::<Vec<_>>()
    };
    for path in ["?period=30d&show=hits", "/parts?period=30d&show=hits"] {
        let page = site.page(path).await;
        assert_eq!(cells(&page, 1), ["29", "290"], "{path}");
        assert!(page.contains("compared\"><bdi>hits (previous)</bdi></th>"), "{page}");
        assert!(text(&page, "sums").contains(" vs. "), "{page}");
        assert!(page.contains("class=\"line compared\""), "{page}");
    }
    // By default, the lines are people.
    let page = site.page("?period=30d").await;
    let estimates = cells(&page, 1).into_iter().map(|cell| cell.parse::<u64>().expect("a number"));
    let estimates: Vec<_> = estimates.collect();
    assert!(estimates[0].abs_diff(29) <= 1 && estimates[1].abs_diff(290) <= 9, "{estimates:?}");
    assert!(page.contains("compared\"><bdi>people (previous)</bdi></th>"), "{page}");
    // 40 days earlier, hits are still unknown on the first days of the compared period.
    let page = site.page("?period=40d").await;
    assert_eq!(cells(&page, 39)[1], "–");
    assert!(
        !text(&page, "card-total").contains('%') || text(&page, "sum-0").split(' ').count() == 1,
        "{page}"
    );
    let none = site.page("?period=30d&compare=none").await;
    assert!(!none.contains("(previous)") && cells(&none, 1).len() == 1, "{none}");
    assert!(!text(&none, "card-total").contains('%'), "{none}");
}

#[tokio::test]
async fn files_contain_what_the_page_shows() {
    let mut site = site().await;
    for number in 0..25 {
        site.record(&format!("=page {number:02}"), Timestamp::now(), 100 - number);
    }
    site.flush().await;
    let noon = i64::try_from(Timestamp::now().as_unix()).expect("small") + i64::from(noon_offset());
    let today = jiff::Timestamp::from_second(noon).expect("an instant").strftime("%F");
    let table = site.get("/list.csv?period=today&q=PAGE&sort=name&page=2").await;
    assert_eq!(table.status, StatusCode::OK, "{}", table.body);
    assert_eq!(
        table.headers[header::CONTENT_DISPOSITION],
        format!("attachment; filename=\"pages-{today}.csv\"")
    );
    let lines: Vec<_> = table.body.split("\r\n").collect();
    assert_eq!((lines.len(), lines[0]), (27, "page,people,views,hits,hits_before,hits_all_time"));
    assert_eq!((lines[1], lines[25]), ("\"'=page 00\",0,,100,0,100", "\"'=page 24\",0,,76,0,76"));
    let chart = site.get("/chart.csv?period=30d&counter=hits&counter=%2Fa&show=hits").await;
    let lines: Vec<_> = chart.body.split("\r\n").collect();
    assert_eq!((lines.len(), lines[0]), (32, "start,\"hits\",\"/a\",\"hits (previous)\""));
    assert!(lines[1].ends_with("Z,1,1,10") && lines[30].ends_with(",30,30,300"), "{lines:?}");
    // Times without data are empty.
    let early = site.get("/chart.csv?period=100d&compare=none").await.body;
    assert!(early.lines().nth(1).is_some_and(|line| line.ends_with("Z,")), "{early}");
    let image = site.get("/chart.svg?period=30d&counter=%2Fa").await;
    assert_eq!(image.headers[header::CONTENT_TYPE], "image/svg+xml");
    assert!(image.body.starts_with("<svg xmlns=") && image.body.contains("/a, 30 days"), "{}", image.body);
    // Values that are not final are shaded.
    let past = site.get("/chart.svg?period=yesterday&counter=%2Fa").await;
    assert_eq!([&image, &past].map(|image| image.body.contains("fill=\"#f3f5f8\"")), [true, false]);
    for path in ["/list.csv?period=x", "/chart.svg?by=x"] {
        assert_eq!(site.get(path).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn a_counter_that_does_not_exist_cannot_be_added() {
    let site = site().await;
    let response = site.get("?counter=hits&counter=%2Fnope%26&period=7d").await;
    assert_eq!(response.status, StatusCode::NOT_FOUND);
    assert!(response.body.contains("There is no counter named"), "{}", response.body);
    let page = site.page("?counter=hits&counter=%2Fa&period=7d").await;
    assert!(
        page.contains("<datalist id=\"suggestions\"><option value=\"/a\">") || page.contains("value=\"/a\">")
    );
}
