//! Series while they grow, as server-sent events.
//!
//! Nothing runs for a listener but the body of its answer, which asks for a reading when it is polled and a
//! second has gone by. So no store is read for clients that read slowly or have left, and it is read once
//! for all that follow the same counters.

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

use super::parameter::{Asked, Counters, HasGrid, KeptPrecision, LastEventId};
use super::response::Series;
use super::route::Route;
use crate::options::Options;
use crate::problem::Problem;
use crate::status::Standing;

/// The statistics, their listeners' permits, and what these follow.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    stats: Stats,
    places: Arc<Semaphore>,
    feeds: Arc<Feeds>,
    options: Options,
}

/// The length of an answer that nothing else ends. A server that stops gracefully waits for its answers, and
/// tells nobody that it does; ten seconds are what containers are often given before they are killed.
const LENGTH: Duration = Duration::from_secs(5);
/// Samples that are remembered for one listener.
const SAMPLES: u32 = 20_000;

/// Proxies that collect an answer before they pass it on are asked not to.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

impl Live {
    pub(crate) fn new(stats: Stats, options: Options) -> Self {
        let places = options.listeners.min(Semaphore::MAX_PERMITS);
        Self { stats, places: Arc::new(Semaphore::new(places)), feeds: Arc::new(Feeds::new()), options }
    }
}

impl HasGrid for Live {
    fn grid(&self) -> &Grid {
        self.stats.grid()
    }
}

pub(crate) fn route(live: Live) -> Route {
    let events = "Events `series` with a Series, `status` with a Standing, and `trouble` with a Problem";
    Route::get("/api/live", "Samples as they change, ledger and health, as server-sent events", live, listen)
        .text("text/event-stream", events)
        .schema::<Series>()
        .schema::<Standing>()
        .most("Of more than 20,000 samples of all counters together, the latest are followed.")
}

async fn listen(asked: Asked<Live, (Counters, KeptPrecision, LastEventId)>) -> Result<Response, Problem> {
    let Asked { state: live, parameters, .. } = asked;
    let (Counters(mut counters), KeptPrecision(kept), LastEventId(mark)) = parameters;
    counters.sort();
    counters.dedup();
    // What an archive keeps for longer never changes, and is not read every second.
    let kept = Retention { precision: kept.precision, samples: kept.samples };
    let most = NonZeroU32::new(SAMPLES / u32::try_from(counters.len()).unwrap_or(u32::MAX).max(1));
    let followed = Retention { samples: most.map_or(kept.samples, |most| most.min(kept.samples)), ..kept };
    let Ok(place) = Arc::clone(&live.places).try_acquire_owned() else {
        return Err(Problem::too_many_listeners(live.options.listeners));
    };
    let feed = live.feeds.feed(&live.stats, counters, followed);
    let listener = Listener::new(live.stats, feed, followed != kept, mark, place);
    let events = stream::unfold(listener, async |mut listener| {
        let event = listener.next().await;
        Some((Ok::<_, Infallible>(event), listener))
    });
    let end = match live.options.live_until {
        Some(end) => Either::Left(end),
        None => Either::Right(sleep(LENGTH)),
    };
    let mut response = Sse::new(events.take_until(end)).into_response();
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}
