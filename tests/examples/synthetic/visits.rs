//! Synthetic visits of a magazine, and a server for its dashboard.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use counter_core::time::Retention;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Bin, Measured};
use counter_core::{Counter, Precision, Recorder, Timestamp};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Label values, in descending frequency.
const LABELS: [(&str, &[&str]); 3] = [
    ("referrer", &["search.example", "news.example", "forum.example", "blog.example", "letters.example"]),
    ("device", &["mobile", "desktop", "tablet", "tv"]),
    ("language", &["en", "de", "fr", "es", "ja"]),
];

/// The secret key of visitors.
const VISITOR_KEY: [u8; 16] = [7; 16];

/// Number of people that visit the site. Some visit more often than others.
const PEOPLE: f64 = 9000.0;

pub(crate) fn retention(width: u32, samples: u32) -> Result<Retention, Box<dyn Error>> {
    let samples = NonZeroU32::new(samples).ok_or("no samples")?;
    Ok(Retention { precision: Precision::try_from(width)?, samples })
}

/// Records a visit of a page. `slowness` is a factor of the response time.
#[expect(clippy::cast_possible_truncation, reason = "some thousand people, and sizes of pages")]
pub(crate) fn record_visit(
    recorder: &Recorder,
    random: &mut Random,
    page: Counter,
    at: Timestamp,
    slowness: f64,
) -> Result<(), Box<dyn Error>> {
    let hits = recorder.counter("hits");
    let person = (random.fraction() * random.fraction() * PEOPLE) as u64;
    let visitor = VisitorKey::new(VISITOR_KEY).visitor(&[&person.to_le_bytes()]);
    for counter in [hits, page] {
        recorder.record_at(counter, visitor, at, NonZeroU32::MIN);
    }
    let ms =
        9.0 * slowness + 24.0 * slowness * random.fraction() + 3.0 * (4.2 * random.fraction().powi(6)).exp();
    let (status, class) = match random.fraction() {
        ..0.012 => (404, "status:4xx"),
        0.012..0.016 => (503, "status:5xx"),
        0.016..0.08 => (304, "status:3xx"),
        _ => (200, "status:2xx"),
    };
    let agent = if random.fraction() < 0.09 { "agent:bot" } else { "agent:human" };
    for name in [class, agent] {
        recorder.record_at(recorder.counter(name), None, at, NonZeroU32::MIN);
    }
    let size = if status == 200 { 9000.0 + 40_000.0 * random.fraction() } else { 300.0 };
    let bins = [
        Bin::time(Duration::from_secs_f64(ms / 1000.0)),
        Bin::body(Duration::from_secs_f64(ms / 1000.0 + 0.002)),
        Bin::size(size as u64),
        Bin::status(status),
    ];
    recorder.measure_at(Measured { hits: &[hits.hit(), page.hit()], bins: &bins }, at);
    for (label, values) in LABELS {
        let of_label = recorder.label_values(label)?;
        let place = (random.fraction().powi(2) * values.len() as f64) as usize;
        let value = values.get(place).filter(|_| label != "referrer" || random.fraction() < 0.6);
        let label_value = of_label.note_at(value.copied(), at, NonZeroU32::MIN);
        recorder.record_at(of_label.counter(label_value), None, at, NonZeroU32::MIN);
    }
    Ok(())
}

/// Serves the dashboard, and returns a link that signs in.
pub(crate) async fn serve(
    admin: Router,
) -> Result<(String, JoinHandle<std::io::Result<()>>), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let link = format!("http://{}/admin/stats?token=a-token-for-tests", listener.local_addr()?);
    let router = Router::new().nest("/admin/stats", admin);
    Ok((link, tokio::spawn(axum::serve(listener, router).into_future())))
}

/// Deterministic random numbers (xorshift).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Returns a number in [0, 1).
    pub(crate) fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as f64 / (f64::from(u32::MAX) + 1.0)
    }
}
