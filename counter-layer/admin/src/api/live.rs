//! Live series as server-sent events.
//!
//! Listeners don't spawn tasks: the response body starts a read when it is polled, at most once per second.
//! Thus, slow or disconnected clients don't cause reads, and clients that follow the same counters share a
//! read.

mod feed;
mod listener;

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use counter_core::Stats;
use counter_core::time::{Grid, Retention};
use futures_util::future::Either;
use futures_util::{StreamExt, stream};
use http::HeaderValue;
use http::header::HeaderName;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use feed::Feeds;
use listener::Listener;

use super::parameter::{CountPrecision, Counters, HasGrid, LastEventId, RequestParts};
use super::read;
use super::response::Series;
use super::route::Route;
use crate::options::Options;
use crate::problem::Problem;
use crate::status::Standing;

/// The statistics, the feeds, and a permit for each listener.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    stats: Stats,
    permits: Arc<Semaphore>,
    feeds: Arc<Feeds>,
    options: Options,
}

/// Maximum response duration if [`Options::live_until`] is not set. A response can't detect a graceful
/// shutdown, but the server will wait for it, and containers are often killed after ten seconds.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(5);
/// Maximum number of samples per listener, over all counters.
const MAX_SAMPLES: u32 = 20_000;

/// Disables response buffering in nginx and other proxies that support this header.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl Live {
    pub(crate) fn new(stats: Stats, options: Options) -> Self {
        let permits = options.listeners.min(Semaphore::MAX_PERMITS);
        Self { stats, permits: Arc::new(Semaphore::new(permits)), feeds: Arc::new(Feeds::new()), options }
    }
}

impl HasGrid for Live {
    fn grid(&self) -> &Grid {
        self.stats.grid()
    }
}

pub(crate) fn route(live: Live) -> Route {
    let events = "Events: `series` with a Series, `status` with a Standing, `trouble` with a Problem";
    Route::get("/api/live", "Live samples, ledger and health, as server-sent events", live, listen)
        .text("text/event-stream", events)
        .schema::<Series>()
        .schema::<Standing>()
        .details("Limited to the latest 20,000 samples over all counters.")
}

async fn listen(
    request: RequestParts<Live, (Counters, CountPrecision, LastEventId)>,
) -> Result<Response, Problem> {
    let RequestParts { state: live, parameters, .. } = request;
    let (Counters(mut counters), CountPrecision(retention), LastEventId(mark)) = parameters;
    counters.sort();
    counters.dedup();
    read::check_precision(&live.stats, &counters, retention.precision)?;
    // Archived samples don't change, so it is enough to follow the live store.
    let retention = Retention { precision: retention.precision, samples: retention.samples };
    let max = NonZeroU32::new(MAX_SAMPLES / u32::try_from(counters.len()).unwrap_or(u32::MAX).max(1));
    let followed =
        Retention { samples: max.map_or(retention.samples, |max| max.min(retention.samples)), ..retention };
    let Ok(permit) = Arc::clone(&live.permits).try_acquire_owned() else {
        return Err(Problem::too_many_listeners(live.options.listeners));
    };
    let feed = live.feeds.feed(&live.stats, counters, followed);
    let listener = Listener::new(live.stats, feed, followed != retention, mark, permit);
    let events = stream::unfold(listener, async |mut listener| {
        let event = listener.next().await;
        Some((Ok::<_, Infallible>(event), listener))
    });
    let end = match live.options.live_until {
        Some(end) => Either::Left(end),
        None => Either::Right(sleep(MAX_RESPONSE_TIME)),
    };
    let mut response = Sse::new(events.take_until(end)).into_response();
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}
