//! Takes the screenshot for the README: a counter page down to the statuses, followed by the labels from the
//! first page, with synthetic data for a day. The argument is the output file.

#[path = "synthetic/visits.rs"]
mod visits;

use std::error::Error;
use std::fs;

use counter_admin::{Access, Options};
use counter_alert::note::{Note, Notes};
use counter_core::{Counters, MemoryStore, Precisions, Recorder, Timestamp};
use tests::browser::{BrowserSettings, Page, browse_at};
use tests::noon_offset;
use visits::{Random, record_visit, retention, serve};

/// Bucket width of the chart in seconds.
const BUCKET_SECONDS: u32 = 900;

const BUCKETS_PER_DAY: u32 = 96;

/// The counter to show.
const COUNTER: &str = "/articles/{id}";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: picture FILE")?;
    let fine = [
        retention(60, 120)?,
        retention(BUCKET_SECONDS, 2 * BUCKETS_PER_DAY)?,
        retention(3600, 24 * 30)?,
        retention(86_400, 120)?,
    ];
    let store = MemoryStore::new();
    let mut counters = Counters::builder(store.clone())
        .precisions(Precisions::new(fine)?)
        .utc_offset(noon_offset())
        .distributions(Precisions::new([
            retention(BUCKET_SECONDS, 2 * BUCKETS_PER_DAY)?,
            retention(3600, 24 * 30)?,
        ])?)
        .build()?;
    let now = Timestamp::now();
    generate_visits(&counters.recorder(), now)?;
    counters.flush().await?;
    let notes = Notes::new(store);
    for (hours, text) in [(7, "Version 1.4: articles from the cache"), (3, "The newsletter of November")] {
        notes.add(&Note::new(now.minus(3600 * hours), text)?).await?;
    }

    let access = Access::bearer("a-token-for-tests")?.may_note();
    let admin = counter_admin::router_with(counters.stats(), access, Options::new().notes(notes));
    let (link, serving) = serve(admin).await?;
    let settings = BrowserSettings { width: 1080, ..BrowserSettings::default() };
    let picture = browse_at(link, settings, |page| async move { take(&page).await }).await;
    serving.abort();
    fs::write(file, picture)?;
    Ok(())
}

async fn take(page: &Page) -> Vec<u8> {
    page.open(&format!("/counter?counter=%2Farticles%2F%7Bid%7D&period=24h&by={BUCKET_SECONDS}&zone=utc"))
        .await;
    page.until_text("#live", |live| live == "Live").await;
    // Remove the process status, because the process has just started.
    page.run_until_done(
        "for (const gone of document.querySelectorAll('#status, footer, .add, .files, #sums, details:not(.menu)'))
            gone.remove();
         document.body.style.paddingBottom = 0;
         fetch('/admin/stats').then((answer) => answer.text()).then((text) => {
             const first = new DOMParser().parseFromString(text, 'text/html');
             document.querySelector('main').append(first.querySelector('.panels'));
             done(true);
         });",
    )
    .await;
    page.screenshot_of("body").await
}

/// Generates visits for two days.
fn generate_visits(recorder: &Recorder, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new();
    let articles = recorder.counter(COUNTER);
    let first = now.minus(u64::from(2 * BUCKETS_PER_DAY * BUCKET_SECONDS));
    for bucket in 0..2 * BUCKETS_PER_DAY {
        let at = first.plus(u64::from(bucket * BUCKET_SECONDS + BUCKET_SECONDS / 2));
        let ago = f64::from(2 * BUCKETS_PER_DAY - bucket) * f64::from(BUCKET_SECONDS) / 3600.0;
        let hour = 12.0 - ago;
        let daylight = (1.0 - ((hour - 3.0) / 24.0 * std::f64::consts::TAU).cos()) / 2.0;
        let newsletter = if ago < 3.0 { 1.0 + 0.9 * (ago / 3.0) } else { 1.0 };
        let visits = (36.0 + 180.0 * daylight) * newsletter * (0.94 + 0.12 * random.fraction());
        // Requests are faster after the cache is introduced.
        let slowness = if ago < 7.0 { 0.4 } else { 1.0 };
        for _ in (0..u32::MAX).take_while(|number| f64::from(*number) + 0.5 < visits) {
            record_visit(recorder, &mut random, articles, at, slowness)?;
        }
    }
    Ok(())
}
