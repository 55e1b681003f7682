//! Demo data: a history of ninety days, and simulated visitors who send real HTTP requests.

mod dice;
mod traffic;
mod people;
mod history;
mod visits;

use std::net::SocketAddr;
use std::time::Duration;

use counter_core::ErrorKind;
use tokio::time::sleep;

pub use history::History;

/// Delay between attempts to record the history while the store is unavailable.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Records the history if the store does not have hits yet. Then sends requests to the site at this address
/// until the future is dropped.
pub async fn run(history: History, site: SocketAddr) {
    // The history must be first, because it is only recorded into a store without hits.
    while let Err(error) = history.record().await {
        tracing::warn!(%error, "the demo history could not be recorded");
        if *error.kind() != ErrorKind::Unavailable {
            break;
        }
        sleep(RETRY_DELAY).await;
    }
    let utc_offset = history.utc_offset();
    // The counters are only needed for the history.
    drop(history);
    visits::send_to(site, utc_offset).await;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::error::Error;

    use axum::Router;
    use axum::body::Body;
    use axum::http::Request;
    use axum::http::header::CONTENT_TYPE;
    use counter_core::window::{Window, WindowCounters};
    use counter_core::{Counters, MemoryStore, Secret};
    use counter_layer::{AccessCounterLayer, Identity, LimitKey, OnStoreError, WindowLimitLayer};
    use tower::ServiceExt;

    use super::traffic::{Client, KINDS};
    use crate::app;
    use crate::forum::Forum;

    #[tokio::test]
    async fn the_site_responds_like_in_the_history() -> Result<(), Box<dyn Error>> {
        let store = MemoryStore::new();
        let mut counters = Counters::builder(store.clone()).build()?;
        let layer = AccessCounterLayer::new(counters.recorder());
        let visitor = LimitKey::identity(Identity::peer(), Secret::process_local())?;
        let minutes = WindowCounters::new(store.clone(), Window::MINUTE);
        let limit = WindowLimitLayer::new(minutes, 5, visitor, OnStoreError::Allow).problem_details();
        let forum = Forum::open(None, store).await?;
        let site = app(layer, forum, limit, std::time::Duration::from_secs(60), Router::new());
        for kind in &KINDS {
            let request = Request::builder().uri(kind.path);
            let request = match kind.client {
                Client::Member => request
                    .method("POST")
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(Body::from("member=1&text=Me+too."))?,
                Client::Reader | Client::Bot => request.body(Body::empty())?,
            };
            assert_eq!(site.clone().oneshot(request).await?.status(), kind.status, "{}", kind.path);
        }
        counters.flush().await?;
        let counted = counters.stats().list_counters(None, 100).await?.counters;
        let counted: BTreeSet<_> =
            counted.iter().map(|(name, _)| &**name).filter(|name| *name != "hits").collect();
        assert_eq!(counted, KINDS.iter().filter_map(|kind| kind.route).collect());
        Ok(())
    }
}
