//! Takes the screenshot for the README: the first page of the example with `--demo-traffic`. The argument is the output
//! file.

use std::error::Error;
use std::fs;

use tests::browser::{BrowserSettings, Page, browse};
use tests::{LIMIT, until};

/// Returns the number of days with hits. The history of the demo begins with the latest.
const DAYS: &str = "fetch('/admin/stats/api/series?counter=hits&precision=86400')
    .then((answer) => answer.json()).then((series) => done(series.samples.length));";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: picture FILE")?;
    let settings = BrowserSettings { demo: true, ..BrowserSettings::default() };
    let picture = browse(settings, |page| async move { take(&page).await }).await;
    fs::write(file, picture)?;
    Ok(())
}

async fn take(page: &Page) -> Vec<u8> {
    until("the history is recorded", LIMIT, async || page.run_until_done(DAYS).await.as_u64() > Some(90))
        .await;
    page.open("?period=30d").await;
    page.until_text("#live", |live| live == "Live").await;
    // The store may still take the last hits of the history.
    let people = page.text("#people").await;
    page.until_text("#people", |now| now != people).await;
    page.screenshot_of("body").await
}
