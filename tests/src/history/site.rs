//! Clients and readers over HTTP, for any deployment of the counter.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::History;
use crate::http::{Response, try_get};
use crate::until::{LIMIT, until, within};

/// Number of clients per site.
const CLIENTS: usize = 4;

/// User agent of the clients.
const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// A process of a deployment. Only the clients here may visit the page.
#[derive(Clone, Debug)]
pub struct Site {
    /// Address of the process, or of a load balancer.
    pub address: SocketAddr,
    /// Path of the page.
    pub page: String,
    /// Counter of the page.
    pub counter: String,
    /// Path of the dashboard, e.g. `/admin/stats`.
    pub dashboard: String,
    /// Token for the dashboard.
    pub token: String,
}

/// Clients and readers of a site, until [`stop`](Self::stop) is called.
#[derive(Debug)]
pub struct Visits {
    tasks: JoinSet<()>,
    done: Arc<AtomicBool>,
}

impl Site {
    /// Starts clients and readers that keep trying while the site does not respond.
    #[must_use]
    pub fn visit(&self, history: &History) -> Visits {
        let (mut tasks, done) = (JoinSet::new(), Arc::<AtomicBool>::default());
        for _ in 0..CLIENTS {
            let (site, history, done) = (self.clone(), history.clone(), Arc::clone(&done));
            tasks.spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    site.request(&history).await;
                }
            });
        }
        let (site, history, stopped) = (self.clone(), history.clone(), Arc::clone(&done));
        tasks.spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                site.read(&history).await;
            }
        });
        Visits { tasks, done }
    }

    /// Notes the hits that the counter already has.
    pub async fn note_earlier_hits(&self, history: &History) {
        let mut hits = None;
        until("the site responds", LIMIT, async || {
            hits = self.lifetime().await;
            hits.is_some()
        })
        .await;
        history.add(&self.counter, hits.unwrap_or_default()).acknowledge();
    }

    /// Waits up to two minutes for the counter to include everything that was acknowledged. Then reads once more.
    pub async fn settle(&self, history: &History) {
        let least = history.acknowledged(&self.counter);
        let is_included = async {
            while self.lifetime().await.is_none_or(|hits| hits < least) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        // If this is never the case, the check reports it.
        within(LIMIT, is_included).await;
        history.settle();
        until("the site responds", LIMIT, async || self.read(history).await).await;
    }

    async fn request(&self, history: &History) {
        let addition = history.add(&self.counter, 1);
        match try_get(self.address, &self.page, &[("User-Agent", BROWSER)]).await {
            Ok(response) if (200..400).contains(&response.status) => addition.acknowledge(),
            Err(ErrorKind::ConnectionRefused) => {
                addition.reject();
                sleep(Duration::from_millis(5)).await;
            }
            // A request that fails may still be counted.
            _ => sleep(Duration::from_millis(5)).await,
        }
    }

    /// Reads the lifetime total. Returns `false` if the site did not respond.
    async fn read(&self, history: &History) -> bool {
        let read = history.read(&self.counter);
        match self.lifetime().await {
            Some(hits) => read.see(hits),
            None => {
                sleep(Duration::from_millis(5)).await;
                return false;
            }
        }
        true
    }

    async fn lifetime(&self) -> Option<u64> {
        let counter: String = url::form_urlencoded::byte_serialize(self.counter.as_bytes()).collect();
        let path = format!("{}/api/lifetimes?counter={counter}", self.dashboard);
        let authorization = format!("Bearer {}", self.token);
        let Response { status, body, .. } =
            try_get(self.address, &path, &[("Authorization", &authorization)]).await.ok()?;
        match status {
            200 => serde_json::from_str::<Value>(&body).ok()?["lifetimes"][0]["total"].as_u64(),
            // There is no counter before the first hit.
            404 => Some(0),
            _ => None,
        }
    }
}

impl Visits {
    /// Waits for pending requests and reads.
    ///
    /// # Panics
    ///
    /// Panics if a client did.
    pub async fn stop(mut self) {
        self.done.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task.expect("no panic");
        }
    }
}
