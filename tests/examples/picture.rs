//! Takes the screenshot for the README: a counter page down to the statuses, followed by the labels from the
//! first page, with synthetic data for a day. The argument is the output file.

use std::error::Error;
use std::fs;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use counter_admin::{Access, Options};
use counter_alert::note::{Note, Notes};
use counter_core::time::Retention;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Bin, Measured};
use counter_core::{Counters, MemoryStore, Precision, Precisions, Recorder, Timestamp};
use tests::browser::{BrowserSettings, Page, browse_at};
use tests::noon_offset;

/// Bucket width of the chart in seconds.
const BUCKET_SECONDS: u32 = 900;

const BUCKETS_PER_DAY: u32 = 96;

/// The counter to show.
const COUNTER: &str = "/articles/{id}";

/// Label values, in descending frequency.
const LABELS: [(&str, &[&str]); 3] = [
    ("referrer", &["search.example", "news.example", "forum.example", "blog.example", "letters.example"]),
    ("device", &["mobile", "desktop", "tablet", "tv"]),
    ("language", &["en", "de", "fr", "es", "ja"]),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: picture FILE")?;
    let retention = |width, samples| -> Result<_, Box<dyn Error>> {
        let samples = NonZeroU32::new(samples).ok_or("no samples")?;
        Ok(Retention { precision: Precision::try_from(width)?, samples })
    };
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
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let link = format!("http://{}/admin/stats?token=a-token-for-tests", listener.local_addr()?);
    let serving =
        tokio::spawn(axum::serve(listener, Router::new().nest("/admin/stats", admin)).into_future());
    let settings = BrowserSettings { width: 1080, ..BrowserSettings::default() };
    let picture = browse_at(link, settings, |page| async move { take(&page).await }).await;
    serving.abort();
    fs::write(file, picture)?;
    Ok(())
}

async fn take(page: &Page) -> Vec<u8> {
    page.open(&format!(
        "/counter?counter=%2Farticles%2F%7Bid%7D&precision={BUCKET_SECONDS}&span={BUCKETS_PER_DAY}&zone=utc&ago=86400"
    ))
    .await;
    page.until_text("#live", |live| live == "Live").await;
    // Remove the process status, because the process has just started.
    page.run_until_done(
        "for (const gone of document.querySelectorAll('#status, footer, .logout, #days, #compare-details nav, details'))
            (gone.id === 'days' ? gone.closest('section') : gone).remove();
         document.body.style.paddingBottom = 0;
         fetch('/admin/stats').then((answer) => answer.text()).then((text) => {
             const first = new DOMParser().parseFromString(text, 'text/html');
             document.querySelector('main').append(first.querySelector('.labels'));
             done(true);
         });",
    )
    .await;
    page.screenshot_of("body").await
}

/// Generates visits for two days, similar to a magazine site.
#[expect(clippy::cast_possible_truncation, reason = "some hundred visits, and sizes of pages")]
fn generate_visits(recorder: &Recorder, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let key = VisitorKey::new([7; 16]);
    let (hits, articles) = (recorder.counter("hits"), recorder.counter(COUNTER));
    let first = now.minus(u64::from(2 * BUCKETS_PER_DAY * BUCKET_SECONDS));
    for bucket in 0..2 * BUCKETS_PER_DAY {
        let at = first.plus(u64::from(bucket * BUCKET_SECONDS + BUCKET_SECONDS / 2));
        let ago = f64::from(2 * BUCKETS_PER_DAY - bucket) * f64::from(BUCKET_SECONDS) / 3600.0;
        let hour = 12.0 - ago;
        let daylight = (1.0 - ((hour - 3.0) / 24.0 * std::f64::consts::TAU).cos()) / 2.0;
        let newsletter = if ago < 3.0 { 1.0 + 0.9 * (ago / 3.0) } else { 1.0 };
        let visits = (36.0 + 180.0 * daylight) * newsletter * (0.94 + 0.12 * random.fraction());
        for _ in 0..visits.round() as u32 {
            let person = (random.fraction() * random.fraction() * 9000.0) as u64;
            let visitor = key.visitor(&[&person.to_le_bytes()]);
            for counter in [hits, articles] {
                recorder.record_at(counter, visitor, at, NonZeroU32::MIN);
            }
            // Requests are faster after the cache is introduced.
            let cached = if ago < 7.0 { 0.4 } else { 1.0 };
            let ms = 9.0 * cached
                + 24.0 * cached * random.fraction()
                + 3.0 * (4.2 * random.fraction().powi(6)).exp();
            let status = match random.fraction() {
                ..0.012 => 404,
                0.012..0.016 => 503,
                0.016..0.08 => 304,
                _ => 200,
            };
            let size = if status == 200 { 9000.0 + 40_000.0 * random.fraction() } else { 300.0 };
            let bins = [
                Bin::time(Duration::from_secs_f64(ms / 1000.0)),
                Bin::body(Duration::from_secs_f64(ms / 1000.0 + 0.002)),
                Bin::size(size as u64),
                Bin::status(status),
            ];
            recorder.measure_at(Measured { hits: &[articles.hit()], bins: &bins }, at);
            for (label, values) in LABELS {
                let of_label = recorder.label_values(label)?;
                let place = (random.fraction().powi(2) * values.len() as f64) as usize;
                let value = values.get(place).filter(|_| label != "referrer" || random.fraction() < 0.6);
                let label_value = of_label.note(value.copied(), at, NonZeroU32::MIN);
                recorder.record_at(of_label.counter(label_value), None, at, NonZeroU32::MIN);
            }
        }
    }
    Ok(())
}

/// Deterministic random numbers (xorshift).
struct Random(u64);

impl Random {
    /// Returns a number in [0, 1).
    fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as f64 / (f64::from(u32::MAX) + 1.0)
    }
}
