//! Serves the site, and keeps its counts in a file, in Redis or in a database.

mod clock;
mod lines;
mod serve;
mod store;
mod patience;
mod grid;
mod labels;
mod watch;
mod summary;
mod target;
mod progress;
mod copy;
#[cfg(feature = "kafka")]
mod consume;
mod import;
mod dump;
mod restore;

use std::error::Error;
use std::fmt::Write as _;
use std::future::pending;
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use counter_admin::{Access, Options, TimeZoneError};
use counter_alert::Watch;
use counter_alert::note::Notes;
use counter_core::archive::Archive;
use counter_core::visits::{Distribution, Measure};
use counter_core::window::{Window, WindowCounters};
use counter_core::{AnyStore, Counters, Secret, Stats, Timestamp};
use counter_layer::{
    AccessCounterLayer, Delivery, Facet, Forwarded, Identity, LimitKey, OnStoreError, ProblemRefusal,
    WindowLimitLayer,
};
use counter_log::LogCounter;
use example_app::forum::Forum;
use example_app::{ADMIN, app, demo};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use lines::Lines;
use serve::{Timeouts, serve_until};
use store::Opened;

/// The number of texts that one visitor may add to the forum in a minute.
const TEXTS: u32 = 5;

/// What runs beside the server.
const FEED: &str = "the feed of the forum";
const RECOUNTS: &str = "the recounts of the forum";
const ARCHIVE: &str = "the upkeep of the archive";
const WATCH: &str = "the watch over alerts";

/// A small site with a forum, which counts its visits, views and likes.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Settings {
    #[command(subcommand)]
    command: Option<Command>,
    /// Address to listen on; port 0 chooses a free one.
    #[arg(long, env, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    #[command(flatten)]
    store: store::Settings,
    /// SQLite file of the forum, such as sqlite:forum.db, created if it is missing; without it, the forum is in the file of the counts, or in the process where these are in none. Set it together with --redis, which keeps copies of the forum's counts.
    #[arg(long, env = "DATABASE_URL")]
    database: Option<String>,
    /// Time of day, by the site's clock, at which the forum's counts are recounted.
    #[arg(long, env, default_value = "04:00", value_parser = clock::time_of_day)]
    recount_at: u32,
    /// Token of the admin pages, at least 16 characters; without it, a random one is generated and printed.
    #[arg(long, env, hide_env_values = true)]
    admin_token: Option<String>,
    /// Let browsers send the session of the admin pages over TLS only; it is set by itself if a trusted proxy sends X-Forwarded-Proto: https.
    #[arg(long, env)]
    secure_cookie: bool,
    /// Secret under which visitors are hashed: 32 hexadecimal digits, such as `openssl rand -hex 16` prints, the same for all instances over one Redis. Without it, each instance applies its limits separately. It is never stored or shown.
    #[arg(long, env = "COUNTER_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Seconds between two flushes.
    #[arg(long, env, default_value = "1", value_parser = seconds)]
    flush_interval: Duration,
    /// Directory in which counts that the store does not have yet survive the process, created if it is missing; several instances may share it.
    #[arg(long, env)]
    spool: Option<PathBuf>,
    /// Database in which closed hours and days are kept for years, longer than in the store: sqlite:archive.db, postgres://user@127.0.0.1/archive or mysql://user@127.0.0.1/archive. Its tables are made.
    #[arg(long, env = "ARCHIVE_URL", hide_env_values = true, value_name = "URL")]
    archive: Option<String>,
    /// Seconds between two looks for hours and days to copy into the archive; they are closed for two minutes by then.
    #[arg(long, env, default_value = "30", value_parser = seconds)]
    archive_interval: Duration,
    /// Keep distributions of how long requests took, how large the responses were and how they ended.
    #[arg(long, env)]
    distributions: bool,
    #[command(flatten)]
    labels: labels::Labels,
    #[command(flatten)]
    watch: watch::Settings,
    /// Number of trusted proxies in front of this server that append to X-Forwarded-For.
    #[arg(long, env, default_value_t = 0)]
    trust_hops: usize,
    #[command(flatten)]
    grid: grid::Settings,
    /// Seconds that a response may wait until its hit is stored; without it, responses do not wait.
    #[arg(long, env, value_parser = seconds)]
    confirm: Option<Duration>,
    /// Seconds that a client may take for the head of a request, for its body, and between two requests.
    #[arg(long, env, default_value = "30", value_parser = seconds)]
    request_timeout: Duration,
    /// Seconds that requests in flight may take after the server was told to stop.
    #[arg(long, env, default_value = "10", value_parser = seconds)]
    drain_timeout: Duration,
    /// Simulate the visits of people, bots and broken links, in days of four minutes.
    #[arg(long, env)]
    demo_traffic: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(import::Settings),
    Dump(dump::Settings),
    Restore(restore::Settings),
    #[cfg(feature = "kafka")]
    Consume(consume::Settings),
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut settings = Settings::parse();
    let outputs = Lines::to(stdout()).and_then(|output| Ok((output, Lines::to(stderr())?)));
    let Ok(((output, _last_of_output), (mut log, _last_of_log))) = outputs else {
        return ExitCode::FAILURE;
    };
    let lines = log.clone();
    tracing_subscriber::fmt().with_ansi(stderr().is_terminal()).with_writer(move || lines.clone()).init();
    // The default hook would wait for the reader of the log.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let result = match settings.command.take() {
        Some(Command::Import(settings)) => import::run(settings).await,
        Some(Command::Dump(settings)) => dump::run(settings).await,
        Some(Command::Restore(settings)) => restore::run(settings).await,
        #[cfg(feature = "kafka")]
        Some(Command::Consume(settings)) => consume::run(settings).await,
        None => serve(settings, output).await,
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    let mut words = format!("example-app: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(words, ": {error}");
        cause = error.source();
    }
    let _ = writeln!(log, "{words}");
    ExitCode::FAILURE
}

async fn serve(settings: Settings, mut output: Lines) -> Result<(), Box<dyn Error>> {
    let opened = settings.store.open().await?;
    let far = match &settings.archive {
        Some(address) => Some(opened.archive(address).await?),
        None => None,
    };
    let Opened { store, mut place, file, is_in_memory, .. } = opened;
    let archive = far.map(|(far, far_place)| {
        place += &format!(", and for years {far_place}");
        Archive::new(store.clone(), far)
    });
    if let Some(archive) = &archive {
        store::check_archive(archive).await?;
    }
    let owners = settings.secret.map(|secret| secret.parse::<Secret>()).transpose()?;
    let secret = owners.clone().unwrap_or_else(Secret::of_this_process);
    // One file may have both: their tables have different names, and each waits for the other's commits.
    let database = settings.database.or(file);
    let forum = Forum::open(database.as_deref(), store.clone()).await?.secret(&secret);
    let builder = match &archive {
        Some(archive) => Counters::builder(archive.clone()),
        None => Counters::builder(store.clone()),
    };
    let mut counters = builder.flush_interval(settings.flush_interval);
    if let Some(secret) = owners {
        counters = counters.secret(secret);
    }
    if settings.distributions {
        counters = counters.distributions(Distribution::precisions());
    }
    if let Some(folder) = settings.spool {
        if is_in_memory {
            return Err("--spool is for a store that outlives the process, and one in memory does not".into());
        }
        counters = counters.spool(folder);
    }
    let counters = settings.grid.build_in_time(counters).await?;
    let (time_zone, utc_offset) = (settings.grid.time_zone, grid::utc_offset(counters.stats().grid()));
    // A token that was configured is a secret, and is not printed.
    let given = settings.admin_token.is_some();
    let token = settings.admin_token.map_or_else(random_token, Ok)?;
    let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(settings.trust_hops);
    let access =
        Access::bearer(&token)?.clients(client.clone()).may_record().may_repair().may_silence().may_note();
    let access = if settings.secure_cookie { access.secure_cookie() } else { access };
    let delivery = match settings.confirm {
        Some(timeout) => Delivery::BeforeResponse { timeout },
        None => Delivery::Background,
    };
    let mut layer = AccessCounterLayer::new(counters.recorder())
        .identity(client)?
        .facets([Facet::Status, Facet::Agent])
        .delivery(delivery);
    layer = settings.labels.choose(layer)?;
    if settings.distributions {
        layer = layer.distributions([Measure::Time, Measure::Body, Measure::Size, Measure::Status]);
    }
    // The address in a record is that of the client, whatever hops are trusted in requests.
    let told_of = LogCounter::new(&layer);
    let (layer, feed) = forum.fed_by(layer);
    let watch = settings.watch.watch(counters.stats(), &store, clocks(time_zone.as_deref(), utc_offset)?)?;
    let notes = Notes::new(store.clone());
    let limit = limit(store, &secret, settings.trust_hops)?;
    // A client that listens to live events would hold up the shutdown of the server.
    let (end_live, live_ended) = oneshot::channel::<()>();
    let mut options = Options::new()
        .live_until(async { drop(live_ended.await) })
        .hits(counters.sources(), told_of)
        .notes(notes);
    if let Some(zone) = &time_zone {
        options = options.time_zone(zone)?;
    }
    if let Some(archive) = &archive {
        options = options.archive(archive.clone());
    }
    if let Some(watch) = &watch {
        options = options.alerts(watch.alerts());
    }
    let stats = counters.stats();
    let admin = counter_admin::router_with(stats.clone(), access, options);
    let site = app(layer, forum.clone(), limit, settings.request_timeout, admin);

    let listener = TcpListener::bind(settings.listen).await?;
    let address = listener.local_addr()?;
    let token = (!given).then_some(&*token);
    output.write_all(announcement(address, &place, token, settings.demo_traffic).as_bytes())?;
    tracing::info!(%address, "listening");

    // The server ends first and the counters after it, so that its last requests are counted.
    let upkeep = counters.spawn();
    let (stop_feed, feed_stopped) = oneshot::channel::<()>();
    let mut feeding = tokio::spawn(feed.run(async { drop(feed_stopped.await) }));
    let recount_at = settings.recount_at;
    let mut recounts = tokio::spawn(async move { forum.recount_each_night(recount_at, utc_offset).await });
    let (stop_archiving, archiving_stopped) = oneshot::channel::<()>();
    let archiving_stopped = async { drop(archiving_stopped.await) };
    let mut archiving = tokio::spawn(keep(archive, stats, settings.archive_interval, archiving_stopped));
    let (stop_watching, watching_stopped) = oneshot::channel::<()>();
    let mut watching = tokio::spawn(watch_until(watch, async { drop(watching_stopped.await) }));
    // It ends with the program; a visit that is cut off still counts.
    let visits = settings.demo_traffic.then(|| tokio::spawn(demo::visit(address)));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // None of these ends before it is told to. If one does, exiting with an error, so that the program is started
    // again, is better than serving without counting.
    let mut ended = None;
    let asked_to_stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = &mut feeding => ended = Some(FEED),
            _ = &mut recounts => ended = Some(RECOUNTS),
            _ = &mut archiving => ended = Some(ARCHIVE),
            _ = &mut watching => ended = Some(WATCH),
        }
        drop(end_live);
        visits.inspect(JoinHandle::abort);
    };
    let timeouts = Timeouts { head: settings.request_timeout, drain: settings.drain_timeout };
    serve_until(listener, site, timeouts, asked_to_stop).await?;
    drop(stop_feed);
    recounts.abort();
    drop(stop_archiving);
    drop(stop_watching);
    let archived = async { if ended == Some(ARCHIVE) { Ok(()) } else { archiving.await } };
    let fed = async { if ended == Some(FEED) { Ok(Ok(())) } else { feeding.await } };
    let watched = async { if ended == Some(WATCH) { Ok(()) } else { watching.await } };
    let (counted, fed, archived, watched) = tokio::join!(upkeep.stop(), fed, archived, watched);
    counted?;
    fed??;
    archived?;
    watched?;
    if let Some(ended) = ended {
        return Err(format!("{ended} ended unexpectedly").into());
    }
    tracing::info!("stopped; every hit is counted");
    Ok(())
}

/// Returns by how many seconds the clocks of the site are ahead of UTC.
fn clocks(
    time_zone: Option<&str>,
    utc_offset: i32,
) -> Result<Box<dyn Fn(Timestamp) -> i32 + Send + Sync>, TimeZoneError> {
    Ok(match time_zone {
        Some(zone) => Box::new(counter_admin::utc_offset(zone)?),
        None => Box::new(move |_| utc_offset),
    })
}

/// Watches over alerts, where that is chosen, until `shutdown` completes.
async fn watch_until(watch: Option<Watch>, shutdown: impl Future<Output = ()>) {
    match watch {
        Some(mut watch) => watch.run(shutdown).await,
        None => shutdown.await,
    }
}

/// Copies into the archive and compares it with the store, where there is one, until `shutdown` completes.
async fn keep(
    archive: Option<Archive>,
    stats: Stats,
    interval: Duration,
    shutdown: impl Future<Output = ()>,
) {
    let Some(archive) = archive else { return shutdown.await };
    let (mut copier, mut auditor) =
        (archive.copier(stats.grid()).interval(interval), archive.auditor(stats.grid()));
    tokio::select! {
        () = copier.run(shutdown) => {}
        () = auditor.run(pending()) => {}
    }
}

/// Limits texts by address, whatever name the client gives.
fn limit(
    store: AnyStore,
    secret: &Secret,
    trust_hops: usize,
) -> Result<WindowLimitLayer<ProblemRefusal>, Box<dyn Error>> {
    let address = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(trust_hops);
    let visitor = LimitKey::identity(address, secret)?;
    let minutes = WindowCounters::new(store, Window::MINUTE);
    Ok(WindowLimitLayer::new(minutes, TEXTS, visitor, OnStoreError::Allow).policy("texts")?.problem_details())
}

/// The start-up lines: where everything is, and the token if it was generated.
fn announcement(address: SocketAddr, place: &str, token: Option<&str>, is_moving: bool) -> String {
    let site = format!("http://{address}");
    // Buckets of a second have something to show at once.
    let shown = if is_moving { "precision=1&span=120" } else { "" };
    let mut lines = Vec::new();
    match token {
        Some(token) => {
            let in_a_query: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            let and = if is_moving { "&" } else { "" };
            lines.push(format!("Dashboard (token: {token}):\n"));
            lines.push(format!("  {site}{ADMIN}?token={in_a_query}{and}{shown}\n"));
        }
        None => {
            let question = if is_moving { "?" } else { "" };
            lines.push("Dashboard (to log in, add the configured token as `token`):\n".to_owned());
            lines.push(format!("  {site}{ADMIN}{question}{shown}\n"));
        }
    }
    lines.push(format!("Site (counts are kept {place}; Ctrl-C stops it):\n"));
    lines.push(format!("  {site}/"));
    for page in [
        "articles",
        "articles/1",
        "posts",
        "posts/1",
        "members",
        "groups/1",
        "search?q=once",
        "download/notes.txt",
        "slow",
        "fail",
    ] {
        lines.push(format!("  {site}/{page}"));
    }
    lines.push(format!("  {site}/healthz (not counted)\n"));
    lines.push("Numbers as JSON:\n".to_owned());
    for question in [
        "counters",
        "series?counter=hits&precision=60",
        "total?counter=hits&precision=86400",
        "uniques?counter=hits&precision=86400",
        "ledger",
        "health",
    ] {
        lines.push(format!("  {site}{ADMIN}/api/{question}"));
    }
    lines.join("\n") + "\n"
}

fn random_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds, such as 1 or 0.25".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
