//! Lists of all pages and label values.

use std::num::NonZeroU32;

use axum::http::{StatusCode, header};
use counter_core::Timestamp;
use counter_core::visitor::VisitorKey;

use super::site::{ResponseText, Site, send, site_at_noon, text};

/// Counts visits of `/`. Each person is a byte, and visits as often as its number.
async fn count(site: &mut Site, at: Timestamp, visits: &[(u8, Option<&str>, &str)]) {
    let (recorder, one) = (site.recorder(), NonZeroU32::MIN);
    let label = |name| recorder.label_values(name).expect("a name").by_page();
    let (sources, countries) = (label("source").people(), label("country"));
    let [hits, page] = ["hits", "/"].map(|name| recorder.counter(name));
    for (person, source, country) in visits {
        let visitor = VisitorKey::new([7; 16]).visitor(&[&[*person]]);
        for _ in 0..*person {
            for counter in [hits, page] {
                recorder.record_at(counter, Some(visitor), at, one);
            }
            for (label, value) in [(&sources, *source), (&countries, Some(*country))] {
                let noted = label.note_at(value, at, one);
                recorder.record_at(label.counter(noted), Some(visitor), at, one);
                let pair = label.pair(noted, page, at, one).expect("pairs are counted");
                recorder.record_at(pair, None, at, one);
            }
        }
    }
    site.counters.flush().await.expect("memory takes all");
}

/// Counts hits of yesterday without people.
async fn note(site: &mut Site, label: &str, values: &[(Option<&str>, u32)]) {
    let (recorder, at) = (site.recorder(), Timestamp::now().minus(86_400));
    let values_of_label = recorder.label_values(label).expect("a name");
    for (value, weight) in values {
        let weight = NonZeroU32::new(*weight).expect("not 0");
        let noted = values_of_label.note_at(*value, at, weight);
        recorder.record_at(values_of_label.counter(noted), None, at, weight);
    }
    site.counters.flush().await.expect("memory takes all");
}

async fn get(site: &Site, path: &str) -> ResponseText {
    let response = send(&site.router, &format!("/admin/stats{path}"), None).await;
    assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
    response
}

fn heads(page: &str) -> String {
    text(page, "table-note", "</thead>")
}

/// A site with visits of yesterday and the days before.
async fn visited() -> Site {
    let mut site = site_at_noon();
    let days_ago = |days: u64| Timestamp::now().minus(days * 86_400);
    let all = [(1, Some("news.example"), "DE"), (1, Some("Google"), "JP"), (1, None, "DE")];
    count(&mut site, days_ago(3), &all).await;
    let before = [(1, Some("news.example"), "DE"), (2, Some("Google"), "DE"), (3, Some("Google"), "JP")];
    count(&mut site, days_ago(2), &before).await;
    let yesterday = [
        (1, Some("news.example"), "DE"),
        (2, Some("news.example"), "JP"),
        (3, Some("news.example"), "JP"),
        (9, Some("Google"), "DE"),
        (4, None, "DE"),
        (1, Some("new.example"), "FR"),
    ];
    count(&mut site, days_ago(1), &yesterday).await;
    site
}

#[tokio::test]
async fn values_are_listed_by_people_with_readable_names() {
    let site = visited().await;
    let list = get(&site, "/list?period=yesterday&label=source").await.body;
    assert_eq!(heads(&list), "Name People Change Views");
    assert_eq!(
        text(&list, "rows", "</tbody>"),
        "news.example 3 +200 % 6 Google search 1 −50 % 9 Direct 1 – 4 new.example 1 New 1"
    );
    assert!(list.contains("<h1>Sources</h1>") && list.contains("1–4 of 4"), "{list}");
    assert!(list.contains("counter?counter=label%3Asource%3AGoogle"), "{list}");
    // A label that does not count people.
    let list = get(&site, "/list?period=yesterday&label=country").await.body;
    assert_eq!(heads(&list), "Name Hits Change Share");
    assert_eq!(
        text(&list, "rows", "</tbody>"),
        "Germany 14 +367 % 70.0 % Japan 5 +67 % 25.0 % France 1 New 5.0 %"
    );
}

#[tokio::test]
async fn a_list_can_be_searched_sorted_and_paged() {
    let mut site = visited().await;
    let names = async |query: &str| {
        let list = get(&site, &format!("/list?period=yesterday&{query}")).await.body;
        let (_, rows) = list.split_once("id=\"rows\"").expect("a table");
        let names = rows.split("class=\"name\"").skip(1);
        names
            .map(|row| {
                row.split_once("<span>").expect("a name").1.split_once('<').expect("its end").0.to_owned()
            })
            .collect::<Vec<_>>()
    };
    // Three people came from news.example, which were not more than one yesterday.
    assert_eq!(names("label=source&sort=change").await, ["news.example", "Google", "Direct", "new.example"]);
    assert_eq!(names("label=source&sort=total").await, ["Google", "news.example", "Direct", "new.example"]);
    assert_eq!(names("label=source&sort=name").await, ["Direct", "Google", "new.example", "news.example"]);
    assert_eq!(names("label=source&q=oog").await, ["Google"]);
    // Both names of a country are found.
    for query in ["germ", "de"] {
        assert_eq!(names(&format!("label=country&q={query}")).await, ["Germany"], "{query}");
    }
    assert_eq!(names("").await, ["/"]);
    let many: Vec<_> = (0..120).map(|number| format!("{number:03}.example")).collect();
    let many: Vec<_> = many.iter().map(|source| (1, Some(&**source), "DE")).collect();
    count(&mut site, Timestamp::now().minus(86_400), &many).await;
    let list =
        async |query: &str| get(&site, &format!("/list?period=yesterday&label=source{query}")).await.body;
    let third = list("&sort=name&page=3").await;
    assert!(
        third.contains("101–124 of 124")
            && third.contains("id=\"before\"")
            && !third.contains("id=\"after\"")
    );
    assert!(text(&third, "rows", "</tbody>").starts_with("100.example 1 New 1 101.example"), "{third}");
    let nothing = list("&q=%3Cb%3E").await;
    assert!(nothing.contains("Nothing contains") && !nothing.contains("<b>"), "{nothing}");
}

#[tokio::test]
async fn a_page_lists_its_values_and_a_value_lists_its_pages() {
    let site = visited().await;
    let list = get(&site, "/list?counter=%2F&period=yesterday&label=country").await.body;
    assert_eq!(heads(&list), "Name Hits Change Share");
    assert_eq!(
        text(&list, "rows", "</tbody>"),
        "Germany 14 +367 % 70.0 % Japan 5 +67 % 25.0 % France 1 New 5.0 %"
    );
    assert!(list.contains("counter=label%3Acountry%3ADE"), "{list}");
    let list = get(&site, "/list?counter=label%3Asource%3AGoogle&period=yesterday").await.body;
    assert_eq!(
        (heads(&list), text(&list, "rows", "</tbody>")),
        ("Page Views Change Share".into(), "/ 9 +80 % 100.0 %".into())
    );
    assert!(list.contains("<bdi>source: Google</bdi>") && list.contains("/counter?counter=%2F"), "{list}");
    for path in [
        "/list?counter=%2Fmissing&label=source",
        "/list.csv?counter=%2Fmissing&label=source",
        "/list?counter=label%3Asource%3Amissing",
    ] {
        let response = send(&site.router, &format!("/admin/stats{path}"), None).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert!(get(&site, "/list?label=plan").await.body.contains("No data yet"));
}

#[tokio::test]
async fn the_file_of_a_list_has_the_same_rows_and_says_what_it_contains() {
    let mut site = visited().await;
    note(&mut site, "country", &[(None, 2), (Some("(odd)"), 5)]).await;
    // Every value of this label is new, so nothing is known about the time before.
    note(&mut site, "plan", &[(Some("free"), 2)]).await;
    for (query, name, content) in [
        (
            "label=source",
            "sources",
            "value,people,views,views_before\r\n\"news.example\",3,6,1\r\n\"Google\",1,9,5\r\n\"(none)\",1,4,0\r\n\"new.example\",1,1,0\r\n",
        ),
        (
            "label=country",
            "countries",
            "value,people,hits,hits_before\r\n\"DE\",,14,3\r\n\"JP\",,5,3\r\n\"FR\",,1,0\r\n\"(none)\",,2,\r\n\"(not listed)\",,5,\r\n",
        ),
        // The number of others that match is not known.
        ("label=country&q=jap", "countries", "value,people,hits,hits_before\r\n\"JP\",,5,3\r\n"),
        (
            "counter=%2F&label=country&sort=name",
            "countries",
            "value,hits,hits_before\r\n\"FR\",1,0\r\n\"DE\",14,3\r\n\"JP\",5,3\r\n",
        ),
        (
            "counter=label%3Asource%3AGoogle",
            "pages-source-Google",
            "page,views,views_before\r\n\"/\",9,5\r\n",
        ),
        ("label=plan", "plan", "value,people,hits,hits_before\r\n\"free\",,2,\r\n"),
        ("", "pages", "page,people,views,hits,hits_before,hits_all_time\r\n\"/\",5,,20,6,29\r\n"),
    ] {
        let file = get(&site, &format!("/list.csv?period=yesterday&{query}")).await;
        assert_eq!(file.body, content, "{query}");
        let disposition = file.headers[header::CONTENT_DISPOSITION].to_str().expect("text");
        assert!(disposition.starts_with(&format!("attachment; filename=\"{name}-20")), "{disposition}");
    }
}

#[tokio::test]
async fn values_of_a_label_that_is_new_are_not_new() {
    let mut site = visited().await;
    note(&mut site, "plan", &[(Some("free"), 2), (Some("paid"), 1)]).await;
    let list = get(&site, "/list?period=yesterday&label=plan").await.body;
    assert_eq!(text(&list, "rows", "</tbody>"), "free 2 – 66.7 % paid 1 – 33.3 %");
    let first = get(&site, "?period=yesterday").await.body;
    assert_eq!(text(&first, "label-plan", "</ol>"), "free 2 66.7 % paid 1 33.3 %");
    let sources = text(&first, "label-source", "</ol>");
    assert!(
        sources.contains("news.example 3 6 +200 %") && sources.ends_with("new.example 1 1 New"),
        "{sources}"
    );
}

#[tokio::test]
async fn a_value_is_new_only_if_it_was_never_counted_before() {
    let mut site = visited().await;
    let days_ago = |days: u64| Timestamp::now().minus(days * 86_400);
    for at in [days_ago(20), days_ago(1)] {
        count(&mut site, at, &[(1, Some("old.example"), "US")]).await;
    }
    let list = get(&site, "/list?period=yesterday&label=source").await.body;
    let rows = text(&list, "rows", "</tbody>");
    assert!(rows.contains("new.example 1 New 1") && rows.contains("old.example 1 – 1"), "{rows}");
    // Hits after the period are also hits of a new value.
    count(&mut site, Timestamp::now(), &[(1, Some("new.example"), "US")]).await;
    let list = get(&site, "/list?period=yesterday&label=source").await.body;
    assert!(text(&list, "rows", "</tbody>").contains("new.example 1 New 1"), "{list}");
}

#[tokio::test]
async fn lists_without_entries_say_so() {
    let site = visited().await;
    for query in ["label=source&q=zzz", "label=campaign", "label=country&q=zzz", "q=zzz", "label=plan"] {
        for sort in ["people", "change", "total", "lifetime"] {
            let query = format!("period=yesterday&{query}&sort={sort}");
            let list = get(&site, &format!("/list?{query}")).await.body;
            assert!(list.contains("No data yet") || list.contains("Nothing contains"), "{query}: {list}");
            let lines = get(&site, &format!("/list.csv?{query}")).await.body;
            assert_eq!(lines.lines().count(), 1, "{query}: {lines}");
        }
    }
    // Sources are views, which are kept by the hour.
    for path in ["/list?label=source", "/list?counter=%2F&label=source"] {
        let list = get(&site, &format!("{path}&period=1h")).await.body;
        assert!(list.contains("Views are not kept by the minute"), "{list}");
        // An empty file would say that there are none.
        let file = format!("/admin/stats{path}&period=1h").replace("list?", "list.csv?");
        assert_eq!(send(&site.router, &file, None).await.status, StatusCode::SERVICE_UNAVAILABLE, "{file}");
    }
    // Without a period, an empty day is replaced by the last week, like on the first page.
    assert!(get(&site, "/list").await.body.contains("7 days"));
    // The site does not list the values of a facet, so we expect its pages.
    let list = get(&site, "/list?counter=status%3A404&period=yesterday").await.body;
    assert!(!list.contains("status%3A404") && text(&list, "rows", "</tbody>").starts_with("/ "), "{list}");
}

#[tokio::test]
async fn the_columns_of_a_list_do_not_depend_on_the_rows_that_are_shown() {
    let mut site = visited().await;
    // A hit without a visitor, e.g. of a log without addresses.
    note(&mut site, "source", &[(Some("nobody.example"), 1)]).await;
    for (query, rows) in [("q=nobody", "nobody.example – New 1"), ("q=new.e", "new.example 1 New 1")] {
        let list = get(&site, &format!("/list?period=yesterday&label=source&{query}")).await.body;
        assert_eq!(heads(&list), "Name People Change Views", "{query}");
        assert_eq!(text(&list, "rows", "</tbody>"), rows, "{query}");
    }
}
