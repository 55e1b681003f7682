//! The example with `--demo-traffic`.

use serde_json::Value;
use tempfile::TempDir;
use tests::http::get;
use tests::{LIMIT, Process, noon_offset, until};

use super::program::Site;
use super::store::{start_in, total, visit};
use crate::support::BROWSER;

#[tokio::test]
async fn the_demo_starts_with_a_history_that_fills_all_panels() {
    let folder = TempDir::new().expect("a folder");
    let site = start_in(folder.path(), &["--demo-traffic", "--labels", "--distributions"]).await;
    until_recorded(&site.process).await;

    let days = site.fetch("series?counter=hits&precision=86400").await;
    let days: Vec<_> = days["samples"].as_array().expect("a list").iter().map(count_of).collect();
    assert!(days.len() >= 90, "{days:?}");
    // The first and the last day are incomplete.
    let whole_days = &days[1..days.len() - 1];
    let (least, most) = (whole_days.iter().min(), whole_days.iter().max());
    assert!(least > Some(&3000) && most < Some(&100_000), "{days:?}");
    // The current hour may only just have started.
    let hours = site.fetch("series?counter=hits&precision=3600").await;
    let hours: Vec<_> = hours["samples"].as_array().expect("a list").iter().map(count_of).collect();
    assert!(hours.len() >= 119 && hours[..118].iter().all(|hits| *hits > 50), "{hours:?}");

    for counter in ["/", "/posts/%7Bid%7D", "/articles/%7Bid%7D", "agent:bot", "status:4xx", "status:5xx"] {
        assert!(total(&site, counter).await > 1000, "{counter}");
    }
    let hits = total(&site, "hits").await;
    assert!(total(&site, "status:5xx").await < hits / 50 && total(&site, "status:4xx").await < hits / 5);
    let visitors = site.fetch("uniques?counter=hits&precision=3600").await["uniques"].as_u64();
    assert!(visitors > Some(500), "{visitors:?}");
    let labels = site.fetch("labels?precision=86400&limit=3").await;
    for label in
        labels["labels"].as_array().expect("a list").iter().filter(|label| label["label"] != "campaign")
    {
        assert!(label["values"].as_array().expect("a list").len() > 1, "{label}");
    }
    // Distributions contain all hits, although hits of the history are recorded together.
    let statuses = site.fetch("statuses?counter=hits&precision=86400").await;
    let measured: u64 = statuses["statuses"].as_array().expect("a list").iter().map(count_of).sum();
    assert!(measured >= hits - hits / 100, "{measured} of {hits}: {statuses}");
    let notes = site.fetch("notes").await;
    assert!(
        notes["notes"][0]["text"].as_str().expect("a text").starts_with("Demo data until here"),
        "{notes}"
    );
}

#[tokio::test]
async fn a_restart_does_not_add_the_history_again() {
    let folder = TempDir::new().expect("a folder");
    let arguments = ["--demo-traffic", "--utc-offset", &noon()];
    let mut site = start_in(folder.path(), &arguments).await;
    until_recorded(&site.process).await;
    let before = total(&site, "hits").await;
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);

    let site = start_in(folder.path(), &arguments).await;
    // The visitors come after the history.
    until_visited(&site).await;
    let after = total(&site, "hits").await;
    assert!((before..before + 1000).contains(&after), "{before} hits, and then {after}");
}

#[tokio::test]
async fn a_store_with_hits_does_not_get_a_history() {
    let folder = TempDir::new().expect("a folder");
    let noon = noon();
    let mut site = start_in(folder.path(), &["--utc-offset", &noon]).await;
    visit(&site, 3).await;
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);

    let site = start_in(folder.path(), &["--demo-traffic", "--utc-offset", &noon]).await;
    until_visited(&site).await;
    assert!(total(&site, "hits").await < 1000);
    assert_eq!(site.fetch("notes").await["notes"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn demo_visitors_come_from_different_addresses_so_that_there_is_no_hint() {
    let site = Site::start(&["--demo-traffic", "--utc-offset", &noon()]).await;
    // After these requests there is a hint, unless another request comes from a different address.
    for _ in 0..1001 {
        get(site.address, "/", &[("User-Agent", BROWSER)]).await;
    }
    let hints = async || site.fetch("health").await["hints"].clone();
    until("there is no hint", LIMIT, async || hints().await == Value::Array(Vec::new())).await;
    until_visited(&site).await;
    assert_eq!(hints().await, Value::Array(Vec::new()));
}

/// Returns the UTC offset at which it is noon, when there are many demo visitors.
pub(super) fn noon() -> String {
    let hours = noon_offset() / 3600;
    format!("{}{:02}:00", if hours < 0 { '-' } else { '+' }, hours.abs())
}

async fn until_recorded(process: &Process) {
    let is_logged = async || process.to_string().contains("recorded a demo history");
    until("the history is recorded", LIMIT, is_logged).await;
}

async fn until_visited(site: &Site) {
    let observed = async || site.fetch("ledger").await["requests"]["observed"].as_u64();
    let before = observed().await;
    until("somebody visits the site", LIMIT, async || observed().await > before).await;
}

fn count_of(sample: &Value) -> u64 {
    sample["count"].as_u64().expect("a count")
}
