//! Takes screenshots of the dashboard in several states: on a phone, on a desktop, in dark mode and without JavaScript.
//! All data is synthetic. The argument is the output folder.

#![allow(clippy::cast_possible_truncation, reason = "the numbers of synthetic visits are small")]

#[path = "synthetic/visits.rs"]
mod visits;

use std::error::Error;
use std::fs;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};

use axum::Router;
use counter_admin::{Access, Options};
use counter_alert::note::{Note, Notes};
use counter_alert::{AlertRule, Watch};
use counter_core::stores::Namespace;
use counter_core::visits::Distribution;
use counter_core::visits::store::{KnownQuery, Read};
use counter_core::{
    CounterName, Counters, MemoryStore, Precision, Precisions, Recorder, RedisStore, Stats, Store, Timestamp,
};
use tests::browser::{BrowserSettings, Page, browse_at};
use tests::{RedisServer, noon_offset, until};
use visits::{Random, record_visit, retention, serve};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Name, width, height, dark mode, and whether scripts are enabled.
const VARIANTS: [(&str, u32, u32, bool, bool); 4] = [
    ("phone", 390, 844, false, true),
    ("desktop", 1280, 900, false, true),
    ("dark", 1280, 900, true, true),
    ("plain", 1280, 900, false, false),
];

/// Pages, and their visits per hour at noon.
const PAGES: [(&str, f64); 8] = [
    ("/articles/{id}", 12.0),
    ("/", 8.0),
    ("/articles", 4.0),
    ("/authors/{name}", 3.0),
    ("/search", 2.0),
    ("/feed.xml", 1.5),
    ("/about", 0.7),
    ("/imprint", 0.2),
];

/// Days with single visits. There are only totals of the days before.
const DETAILED_DAYS: u64 = 15;

const DAYS: u64 = 420;

const DAY: u64 = 86_400;

/// The number of pages with long names.
const LONG_NAMES: u32 = 200;

/// The links that sign in at each site.
#[derive(Clone, Debug)]
struct Sites {
    busy: String,
    alerting: String,
    empty: String,
    quiet: String,
    long_names: String,
    away: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: screens FOLDER")?);
    fs::create_dir_all(&folder)?;
    let mut redis = RedisServer::start_with(&["--appendonly", "yes"]);
    let store = RedisStore::connect(&redis.url(), Namespace::default()).await?;
    let day = Precision::try_from(86_400)?;
    let first = KnownQuery { precisions: &[day], from: "", limit: 1, since: Timestamp::MIN };
    until("Redis is connected", tests::LIMIT, async || store.known(first).await.is_ok()).await;
    let busy = record(MemoryStore::new(), |recorder| {
        record_totals(recorder, DETAILED_DAYS..DAYS)?;
        record_visits(recorder, 0..DETAILED_DAYS)
    })
    .await?;
    let sites = Sites {
        busy: serve_site(&busy.stats(), Options::new()).await?,
        alerting: serve_alerts(&busy.stats()).await?,
        empty: serve_site(&record(MemoryStore::new(), |_| Ok(())).await?.stats(), Options::new()).await?,
        quiet: serve_site(
            &record(MemoryStore::new(), |recorder| record_visits(recorder, 9..12)).await?.stats(),
            Options::new(),
        )
        .await?,
        long_names: serve_site(&record(MemoryStore::new(), record_long_names).await?.stats(), Options::new())
            .await?,
        away: serve_site(
            &record(store, |recorder| record_visits(recorder, 0..8)).await?.stats(),
            Options::new(),
        )
        .await?,
    };
    for (variant, width, height, dark, script) in VARIANTS {
        let settings = BrowserSettings { width, height, dark, script, ..BrowserSettings::default() };
        let (sites, folder) = (sites.clone(), folder.clone());
        redis = browse_at(sites.busy.clone(), settings, move |page| async move {
            let redis = take_all(&page, &sites, &folder, variant, script, redis).await;
            // The browser logs the status of failed requests, which are expected.
            page.console_errors().await;
            redis
        })
        .await;
    }
    Ok(())
}

/// Takes all screenshots of a variant.
async fn take_all(
    page: &Page,
    sites: &Sites,
    folder: &Path,
    variant: &str,
    script: bool,
    mut redis: RedisServer,
) -> RedisServer {
    let save = async |state: &str| {
        let file = folder.join(format!("{state}-{variant}.png"));
        fs::write(file, page.full_screenshot().await).expect("the folder is writable");
    };
    let open = async |link: &str, path: &str| {
        page.open_url(link).await;
        page.open_url(&link.replace("?token=a-token-for-tests", path)).await;
    };
    for (state, link, path) in [
        ("01-week", &sites.busy, "?period=7d"),
        ("02-today", &sites.busy, "?period=today"),
        ("03-year", &sites.busy, "?period=12mo"),
        ("04-counter", &sites.busy, "/counter?counter=%2Farticles%2F%7Bid%7D&period=7d"),
        ("05-empty", &sites.empty, ""),
        ("06-no-hits", &sites.quiet, "?period=7d"),
        ("07-long-names", &sites.long_names, "?period=7d"),
        ("09-alerts", &sites.alerting, "/alerts"),
        ("10-share", &sites.busy, "/counter/share?counter=%2Farticles%2F%7Bid%7D&period=7d"),
    ] {
        open(link, path).await;
        save(state).await;
    }
    page.choose("#more", "form[action$='/logout'] button").await;
    page.open_url(&sites.busy.replace("?token=a-token-for-tests", "")).await;
    save("10-sign-in").await;

    open(&sites.away, "?period=7d").await;
    redis.stop();
    if script {
        page.until_text("#live", |live| live.starts_with("Store unreachable")).await;
    } else {
        page.open_url(&sites.away.replace("?token=a-token-for-tests", "?period=7d")).await;
    }
    save("08-store-away").await;
    redis.restart();
    redis
}

/// Returns counters over a store, after recording.
async fn record(store: impl Store + Clone, record: impl FnOnce(&Recorder) -> Result<()>) -> Result<Counters> {
    let days = retention(86_400, 800)?;
    let mut counters = Counters::builder(store)
        .precisions(Precisions::new([retention(60, 120)?, retention(3600, 24 * 40)?, days])?)
        .visitor_precisions(Precisions::new([days])?)
        .distributions(Distribution::precisions())
        .utc_offset(noon_offset())
        .build()?;
    record(&counters.recorder())?;
    counters.flush().await?;
    Ok(counters)
}

async fn serve_site(stats: &Stats, options: Options) -> Result<String> {
    let notes = Notes::new(MemoryStore::new());
    let now = Timestamp::now();
    for (hours, text) in [(75, "Version 1.4: articles from the cache"), (28, "The newsletter of November")] {
        notes.add(&Note::new(now.minus(3600 * hours), text)?).await?;
    }
    let access = Access::bearer("a-token-for-tests")?.may_note().may_silence();
    // A time zone where it is noon. The signs of these names are reversed.
    let options = options.notes(notes).time_zone(&format!("Etc/GMT{:+}", -noon_offset() / 3600))?;
    let admin: Router = counter_admin::router_with(stats.clone(), access, options);
    Ok(serve(admin).await?.0)
}

/// Serves a site with a raised alert.
async fn serve_alerts(stats: &Stats) -> Result<String> {
    let hour = Precision::try_from(3600)?;
    let name = |name| CounterName::new(name);
    let rules = [
        AlertRule::above("busy", name("hits")?, hour, 1_000_000),
        AlertRule::below("few articles", name("/articles/{id}")?, hour, 10_000),
        AlertRule::share_above("errors", [name("status:5xx")?], name("hits")?, hour, 0.05),
    ];
    let mut watch = Watch::builder(stats.clone(), MemoryStore::new()).rules(rules).build()?;
    for ago in [3600, 0] {
        watch.check_once(Timestamp::now().minus(ago)).await?;
    }
    serve_site(stats, Options::new().alerts(watch.alerts())).await
}

/// Records single visits for a range of days before now.
fn record_visits(recorder: &Recorder, days: Range<u64>) -> Result<()> {
    let (now, mut random) = (Timestamp::now(), Random::new());
    for hours_ago in days.start * 24..days.end * 24 {
        // It is noon.
        let daylight = (1.0 + (hours_ago as f64 / 24.0 * std::f64::consts::TAU).cos()) / 2.0;
        for (name, per_hour) in PAGES {
            let page = recorder.counter(name);
            let visits = per_hour * (0.15 + daylight) * (0.5 + random.fraction());
            for _ in 0..visits.round() as u32 {
                let at = now.minus(3600 * hours_ago + (3600.0 * random.fraction()) as u64);
                record_visit(recorder, &mut random, page, at, 1.0)?;
            }
        }
    }
    Ok(())
}

/// Records the totals of a range of days before today.
fn record_totals(recorder: &Recorder, days: Range<u64>) -> Result<()> {
    let (now, mut random) = (Timestamp::now(), Random::new());
    for days_ago in days {
        let at = now.minus(DAY * days_ago);
        let weekend = if matches!(at.as_unix() / DAY % 7, 2 | 3) { 0.6 } else { 1.0 };
        let growth = 1.0 - days_ago as f64 / (DAYS as f64 * 1.4);
        let mut sum = 0;
        for (name, per_hour) in PAGES {
            let visits = (per_hour * 15.0 * weekend * growth * (0.8 + 0.4 * random.fraction())) as u32;
            if let Some(weight) = NonZeroU32::new(visits) {
                recorder.record_at(recorder.counter(name), None, at, weight);
                sum += visits;
            }
        }
        for (name, share) in [("hits", 1.0), ("status:2xx", 0.98), ("status:5xx", 0.01), ("agent:human", 1.0)]
        {
            if let Some(weight) = NonZeroU32::new((f64::from(sum) * share) as u32) {
                recorder.record_at(recorder.counter(name), None, at, weight);
            }
        }
    }
    Ok(())
}

/// Records visits of pages with long names.
fn record_long_names(recorder: &Recorder) -> Result<()> {
    let (now, mut random) = (Timestamp::now(), Random::new());
    for number in 0..LONG_NAMES {
        let name = match number % 4 {
            0 => format!(
                "/magazine/archive/of/all/articles/that/were/ever/printed/{number}/{{year}}/{{month}}/{{slug}}"
            ),
            1 => format!("/{}/{number}", "Donaudampfschifffahrtsgesellschaft".repeat(3)),
            2 => format!("/مقالات/الأخبار/العالم/{number}/الصفحة-الأولى-من-الجريدة"),
            _ => format!("/記事/{number}/{}", "長い名前のページ".repeat(5)),
        };
        let page = recorder.counter(&name);
        for _ in 0..1 + (LONG_NAMES - number) / 20 {
            let at = now.minus((6.0 * DAY as f64 * random.fraction()) as u64);
            record_visit(recorder, &mut random, page, at, 1.0)?;
        }
    }
    Ok(())
}
