use std::error::Error;
use std::future::pending;
use std::io::Write as _;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use counter_admin::{Access, Options, TimeZoneError};
use counter_alert::Watch;
use counter_alert::goal::Goals;
use counter_alert::note::Notes;
use counter_core::archive::Archive;
use counter_core::window::{Window, WindowCounters};
use counter_core::{AnyStore, Counters, Secret, Stats, Timestamp};
use counter_layer::body::InFlightLayer;
use counter_layer::{Address, CountryDatabase, LimitKey, OnStoreError, ProblemRejection, WindowLimitLayer};
use counter_log::LogCounter;
use example_app::demo::History;
use example_app::forum::Forum;
use example_app::{app, demo};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::interval;

use super::announcement::announcement;
use super::parts::{Parts, TaskResult};
use super::server::serve_until;
use super::settings::Settings;
use super::watch::Prepared;
use crate::flags::grid;
use crate::flags::store::{Mode, check_archive, unusable};
use crate::lines::Lines;
use crate::problem::{At, explain};

/// The site, ready to be served.
struct Site {
    router: Router,
    counters: Counters,
    /// Background tasks.
    parts: Parts,
    /// Ends live events when it is dropped. Otherwise, a client that listens to them would delay the
    /// shutdown.
    live: oneshot::Sender<()>,
    /// Describes the store in the startup message.
    place: String,
    /// The history of the demo.
    history: Option<History>,
}

/// Number of texts that one visitor may add to the forum within a minute.
const MAX_TEXTS_PER_MINUTE: u32 = 5;

/// Interval to check whether the country database has changed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);

/// Serves the site until a signal stops the program.
///
/// # Errors
///
/// Returns an error if a setting is invalid, if a background task ends unexpectedly, or if hits could not be
/// stored in time.
pub(crate) async fn serve(settings: Settings, mut output: Lines) -> Result<(), Box<dyn Error>> {
    // A configured token is a secret and must not be printed.
    let configured_token = settings.dashboard.admin_token.clone();
    let token = configured_token.clone().map_or_else(random_token, Ok)?;
    let access = settings.access(&token).at("--admin-token")?;
    let secret = settings.counting.secret.as_deref().map(str::parse::<Secret>).transpose().at("--secret")?;
    let watch = settings.watch.prepare()?;
    settings.check()?;
    // A second instance with the same address should not create a store.
    let listen = &settings.server.listen;
    let addresses = listen.resolve().await.at(format!("--listen {listen}"))?;
    let listener = TcpListener::bind(&*addresses).await.at(format!("--listen {listen}"))?;
    let Site { router, counters, parts, live, place, history } =
        assemble(&settings, access, secret, watch).await?;

    let address = listener.local_addr()?;
    let printed_token = configured_token.is_none().then_some(&*token);
    output.write_all(announcement(address, &place, printed_token, history.is_some()).as_bytes())?;
    tracing::info!(%address, "listening");

    // The server must be stopped before the counters, so that the final requests are counted.
    let upkeep = counters.spawn();
    let mut parts = parts.start();
    // A request that is aborted by the shutdown still counts.
    let demo = history.map(|history| tokio::spawn(demo::run(history, address)));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // A task should never end before it is stopped. If this happens, we exit with an error so that the
    // program will be restarted, instead of serving without counting.
    let mut ended = None;
    let stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            name = parts.ended() => ended = Some(name),
        }
        drop(live);
        demo.inspect(JoinHandle::abort);
    };
    serve_until(listener, router, settings.timeouts(), stop).await?;
    let (counted, stopped) = tokio::join!(upkeep.stop(), parts.stop());
    counted?;
    stopped?;
    if let Some(ended) = ended {
        return Err(format!("{ended} ended unexpectedly").into());
    }
    tracing::info!("stopped, all hits are stored");
    Ok(())
}

/// Connects to the stores and builds the site.
async fn assemble(
    settings: &Settings,
    access: Access,
    configured_secret: Option<Secret>,
    watch: Prepared,
) -> Result<Site, Box<dyn Error>> {
    let opened = match settings.sites.is_empty() {
        true => settings.store.open(Mode::Write).await?,
        false => settings.store.open_or("memory:", Mode::Write).await?,
    };
    let (archive, place) = match &settings.writes.archive {
        Some(address) => {
            let (far, far_place) = opened.archive(address).await?;
            let archive = Archive::new(opened.store.clone(), far);
            check_archive(&archive).await?;
            (Some(archive), format!("{}, and archived {far_place}", opened.place))
        }
        None => (None, opened.place.clone()),
    };
    // We do this first, so that a message about the store precedes those of its users.
    let counters = settings.counters(&opened, archive.as_ref(), configured_secret.clone()).await?;
    // The limit of the forum would report a secret that is local to the process, but nobody asked for this limit.
    let secret = match configured_secret {
        Some(secret) => secret,
        None => random_token()?.parse()?,
    };
    // The forum and the counts can share a file: the table names differ, and both wait for write locks.
    let (database, option) = match &settings.forum.database {
        Some(address) => (Some(address), format!("--database {address}")),
        None => (opened.file.as_ref(), opened.option.clone()),
    };
    let forum = Forum::open(database.map(|file| &**file), opened.store.clone()).await;
    let forum = match (forum, database) {
        (Err(error), Some(file)) => return Err(unusable(file, error)).at(option),
        (forum, _) => forum?.secret(&secret),
    };
    let (store, stats) = (opened.store, counters.stats());
    let local_offset = local_offset(settings.grid.time_zone.as_deref(), grid::utc_offset(stats.grid()))?;
    let utc_offset = local_offset(Timestamp::now());

    let layer = settings.layer(counters.recorder())?;
    // The address in a record already is the client address, even if there are trusted proxies.
    let log_counter = LogCounter::new(&layer);
    let (layer, feed) = forum.with_feed(layer);
    let watch = settings.watch.watch(watch, stats.clone(), &store, local_offset)?;
    let history = settings.history(&store, stats.grid(), utc_offset)?;
    let (live, live_ended) = oneshot::channel::<()>();
    let mut options = Options::new()
        .live_until(async { drop(live_ended.await) })
        .ignore_switch()
        .hits(counters.sources(), log_counter)
        .notes(Notes::new(store.clone()))
        .goals(Goals::new(store.clone()));
    if let Some(zone) = &settings.grid.time_zone {
        options = options.time_zone(zone)?.time_zone_remedy(grid::TIME_ZONE_REMEDY);
    }
    if let Some(name) = settings.site_name() {
        options = options.site_name(&name);
    }
    if let Some(archive) = &archive {
        options = options.archive(archive.clone());
    }
    if let Some(watch) = &watch {
        options = options.alerts(watch.alerts());
    }
    let admin = counter_admin::router_with(stats.clone(), access, options);
    let limit = limit(store, &secret, settings.client())?;
    let router = app(layer, forum.clone(), limit, settings.server.request_timeout, admin)
        .layer(InFlightLayer::new(&counters.recorder()));

    let (recount_at, archive_interval) = (settings.forum.recount_at, settings.writes.archive_interval);
    let mut parts = Parts::new();
    parts.add("the forum feed", |stopped| async { Ok(feed.run(stopped).await?) });
    parts.add("the forum recount", |stopped| recount(forum, recount_at, utc_offset, stopped));
    if let Some(archive) = archive {
        parts.add("the archive upkeep", |stopped| run_archive(archive, stats, archive_interval, stopped));
    }
    if let Some(database) = settings.country_database().cloned() {
        parts.add("the country database", |stopped| reload(database, stopped));
    }
    if let Some(watch) = watch {
        parts.add("the alert watch", |stopped| run(watch, stopped));
    }
    Ok(Site { router, counters, parts, live, place, history })
}

/// Reads the country database again when it has changed.
async fn reload(database: CountryDatabase, stopped: impl Future<Output = ()>) -> TaskResult {
    let (mut stopped, mut interval) = (pin!(stopped), interval(RELOAD_INTERVAL));
    loop {
        tokio::select! {
            () = &mut stopped => return Ok(()),
            _ = interval.tick() => {}
        }
        let database = database.clone();
        match spawn_blocking(move || database.reload()).await? {
            Ok(true) => tracing::info!("the country database was read again"),
            Ok(false) => {}
            Err(error) => tracing::warn!("{}; the previous one remains in use", explain(&error)),
        }
    }
}

/// Recalculates the forum counts every night.
async fn recount(forum: Forum, at: u32, utc_offset: i32, stopped: impl Future<Output = ()>) -> TaskResult {
    tokio::select! {
        () = forum.recount_each_night(at, utc_offset) => {}
        () = stopped => {}
    }
    Ok(())
}

/// Copies to the archive, and compares it to the store.
async fn run_archive(
    archive: Archive,
    stats: Stats,
    interval: Duration,
    stopped: impl Future<Output = ()>,
) -> TaskResult {
    let mut copier = archive.copier(stats.grid()).interval(interval);
    let mut auditor = archive.auditor(stats.grid());
    tokio::select! {
        () = copier.run(stopped) => {}
        () = auditor.run(pending()) => {}
    }
    Ok(())
}

/// Evaluates alerts.
async fn run(mut watch: Watch, stopped: impl Future<Output = ()>) -> TaskResult {
    watch.run(stopped).await;
    Ok(())
}

/// Returns a function for the UTC offset of the site in seconds.
fn local_offset(
    time_zone: Option<&str>,
    utc_offset: i32,
) -> Result<Box<dyn Fn(Timestamp) -> i32 + Send + Sync>, TimeZoneError> {
    Ok(match time_zone {
        Some(zone) => Box::new(counter_admin::utc_offset(zone)?),
        None => Box::new(move |_| utc_offset),
    })
}

/// Builds a rate limit for texts. It is based on the address, because clients can choose any name.
fn limit(
    store: AnyStore,
    secret: &Secret,
    client: Address,
) -> Result<WindowLimitLayer<ProblemRejection>, Box<dyn Error>> {
    let visitor = LimitKey::identity(client, secret)?;
    let minutes = WindowCounters::new(store, Window::MINUTE);
    let limit = WindowLimitLayer::new(minutes, MAX_TEXTS_PER_MINUTE, visitor, OnStoreError::Allow);
    Ok(limit.policy("texts")?.problem_details())
}

fn random_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}
