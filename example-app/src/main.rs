//! Serves the small site, counting into the process or into Redis.

mod hour;
mod offset;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use counter_core::{
    Counters, EntityCache, MemoryStore, Namespace, RedisStore, Secret, Store, Window, WindowCounters,
    WindowStore,
};
use counter_layer::admin::{self, Access, Options};
use counter_layer::{
    AccessCounterLayer, Delivery, Facet, Forwarded, Identity, LimitKey, ProblemRefusal, StoreAway,
    WindowLimitLayer,
};
use example_app::forum::Forum;
use example_app::{ADMIN, app, demo};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Texts that one visitor may add to the forum in a minute.
const TEXTS: u32 = 5;

/// A small site with a forum that counts its visits, views and likes.
#[derive(Debug, Parser)]
struct Settings {
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, env, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// A Redis address such as redis://127.0.0.1:6379 or redis-cluster://127.0.0.1:7000; without one, counts live in the process.
    #[arg(long, env = "REDIS_URL", hide_env_values = true)]
    redis: Option<String>,
    /// What the keys in Redis begin with.
    #[arg(long, env, default_value_t)]
    namespace: Namespace,
    /// The forum's SQLite file, such as sqlite:forum.db, made where it is missing; without one, the forum lives in the process. Give one with --redis, which keeps copies of its counts.
    #[arg(long, env = "DATABASE_URL")]
    database: Option<String>,
    /// When the forum is recounted, each day at such a time of the site.
    #[arg(long, env, default_value = "04:00", value_parser = hour::seconds)]
    recount_at: u32,
    /// The token of the admin pages; without one, a random one.
    #[arg(long, env, hide_env_values = true)]
    admin_token: Option<String>,
    /// What keys the ids of visitors: 32 hexadecimal digits, such as `openssl rand -hex 16` makes, the same for all instances over one Redis. Without it, each instance limits for itself. It is stored and shown nowhere.
    #[arg(long, env = "COUNTER_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Seconds between two flushes.
    #[arg(long, env, default_value = "1", value_parser = seconds)]
    flush_interval: Duration,
    /// How many proxies of one's own stand in front and write X-Forwarded-For.
    #[arg(long, env, default_value_t = 0)]
    trust_hops: usize,
    /// How far the site's clocks are ahead of UTC, such as +01:00 or -05:30: a day begins at their midnight. Summer time is not followed.
    #[arg(long, env, default_value = "+00:00", value_parser = offset::seconds, allow_hyphen_values = true)]
    utc_offset: i32,
    /// Answer only when Redis has the hit, or after so many seconds; without it, at once.
    #[arg(long, env, value_parser = seconds)]
    confirm: Option<Duration>,
    /// Visits itself as people, bots and broken links would, through a day that lasts four minutes.
    #[arg(long, env)]
    demo_traffic: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Err(error) = run(Settings::parse()).await else { return ExitCode::SUCCESS };
    eprint!("example-app: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprint!(": {error}");
        cause = error.source();
    }
    eprintln!();
    ExitCode::FAILURE
}

async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    match settings.redis.clone() {
        None => serve(settings, MemoryStore::new(), "in this process (--redis keeps them)").await,
        Some(url) => {
            let store = RedisStore::connect(&url, settings.namespace.clone()).await?;
            serve(settings, store, "in Redis").await
        }
    }
}

async fn serve<S>(settings: Settings, store: S, place: &str) -> Result<(), Box<dyn Error>>
where
    S: Store + EntityCache + WindowStore,
{
    let owners = settings.secret.map(|secret| secret.parse::<Secret>()).transpose()?;
    let secret = owners.clone().unwrap_or_else(Secret::of_this_process);
    let forum = Forum::open(settings.database.as_deref(), store.clone()).await?.secret(&secret);
    let mut counters = Counters::builder(store.clone())
        .flush_interval(settings.flush_interval)
        .utc_offset(settings.utc_offset);
    if let Some(secret) = owners {
        counters = counters.secret(secret);
    }
    let mut counters = counters.build()?;
    let token = settings.admin_token.map_or_else(random_token, Ok)?;
    let access = Access::bearer(&token)?;
    let delivery = match settings.confirm {
        Some(timeout) => Delivery::BeforeResponse { timeout },
        None => Delivery::Background,
    };
    let layer = AccessCounterLayer::new(counters.recorder())
        .trusted_hops(settings.trust_hops)
        .facets([Facet::Status, Facet::Agent])
        .delivery(delivery);
    let (layer, feed) = forum.fed_by(layer);
    let limit = limit(store, &secret, settings.trust_hops)?;
    // Whoever listens to live events would hold up the end of the server.
    let (end_live, live_ended) = oneshot::channel::<()>();
    let options = Options::new().live_until(async { drop(live_ended.await) });
    let admin = admin::router_with(counters.stats(), access, options);
    let site = app(layer, forum.clone(), limit, admin);

    let listener = TcpListener::bind(settings.listen).await?;
    let address = listener.local_addr()?;
    announce(address, place, &token, settings.demo_traffic);

    // The server ends first and the counters after it, so that its last requests are counted.
    let (stop, stopped) = oneshot::channel::<()>();
    let upkeep = tokio::spawn(async move { counters.run(async { drop(stopped.await) }).await });
    let (stop_feed, feed_stopped) = oneshot::channel::<()>();
    let feeding = tokio::spawn(feed.run(async { drop(feed_stopped.await) }));
    let (recount_at, utc_offset) = (settings.recount_at, settings.utc_offset);
    let recounts = tokio::spawn(async move { forum.recount_each_night(recount_at, utc_offset).await });
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let asked_to_stop = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        drop(end_live);
    };
    // It ends with the program: a visit that is cut off is one, too.
    let visits = settings.demo_traffic.then(|| tokio::spawn(demo::visit(address)));
    axum::serve(listener, site.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async move {
            asked_to_stop.await;
            visits.inspect(JoinHandle::abort);
        })
        .await?;
    drop((stop, stop_feed));
    recounts.abort();
    let (counted, fed) = tokio::join!(upkeep, feeding);
    counted??;
    fed??;
    tracing::info!("stopped; every hit is counted");
    Ok(())
}

/// So many texts of one address: what somebody calls himself does not matter.
fn limit<S: WindowStore>(
    store: S,
    secret: &Secret,
    trust_hops: usize,
) -> Result<WindowLimitLayer<ProblemRefusal>, Box<dyn Error>> {
    let address = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(trust_hops);
    let visitor = LimitKey::identity(address.without_user_agent(), secret)?;
    let minutes = WindowCounters::new(store, Window::MINUTE);
    Ok(WindowLimitLayer::new(minutes, TEXTS, visitor, StoreAway::Open).policy("texts")?.problem_details())
}

#[expect(clippy::print_stdout, reason = "this is what the program has to say to who starts it")]
fn announce(address: SocketAddr, place: &str, token: &str, is_moving: bool) {
    let site = format!("http://{address}");
    let in_a_query: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
    // By the second there is something to see at once.
    let shown = if is_moving { "&precision=1&span=120" } else { "" };
    println!("The dashboard, for who has the token {token}:");
    println!();
    println!("  {site}{ADMIN}?token={in_a_query}{shown}");
    println!();
    println!("The site. Counts are kept {place}. Ctrl-C stops.");
    println!();
    println!("  {site}/");
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
        println!("  {site}/{page}");
    }
    println!("  {site}/healthz (not counted)");
    println!();
    println!("The numbers as JSON:");
    println!();
    for question in [
        "counters",
        "series?counter=hits&precision=60",
        "total?counter=hits&precision=86400",
        "uniques?counter=hits&precision=86400",
        "ledger",
        "health",
    ] {
        println!("  {site}{ADMIN}/api/{question}");
    }
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
