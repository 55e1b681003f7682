//! Reads over HTTP agree with requests, while processes and servers are killed.

use std::time::Duration;

use tempfile::TempDir;
use tests::history::site::{self, Visits};
use tests::history::{History, Promise};
use tests::{MariaDb, Postgres, RedisServer};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use super::program::{LIMIT, Site, TOKEN};
use crate::random::Random;
use crate::support::storm_seconds;

/// Number of processes with the same store.
const PROCESSES: usize = 2;

/// A process, and its clients.
struct Process {
    site: Site,
    visits: Visits,
}

impl Process {
    async fn start(store: &str, history: &History) -> Self {
        let site = Site::start(&["--store", store, "--confirm", &LIMIT.as_secs().to_string()]).await;
        let visits = deployment(&site).visit(history);
        Self { site, visits }
    }

    async fn kill(mut self) {
        self.site.process.kill();
        self.visits.stop().await;
    }
}

fn deployment(site: &Site) -> site::Site {
    site::Site {
        address: site.address,
        page: "/articles/1".to_owned(),
        counter: "/articles/{id}".to_owned(),
        dashboard: "/admin/stats".to_owned(),
        token: TOKEN.to_owned(),
    }
}

/// Kills processes in random order, and `restart`s the server.
async fn check(name: &str, store: &str, promise: Promise, mut restart: impl FnMut()) {
    let (history, mut random) = (History::default(), Random::storm(name));
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        processes.push(Process::start(store, &history).await);
    }
    let end = Instant::now() + Duration::from_secs(storm_seconds());
    let mut kills = 0;
    while Instant::now() < end || kills < PROCESSES {
        sleep(random.millis(50..1000)).await;
        if kills % 3 == 1 {
            block_in_place(&mut restart);
        }
        processes.swap_remove(random.index(PROCESSES)).kill().await;
        processes.push(Process::start(store, &history).await);
        kills += 1;
    }
    let mut last = None;
    for Process { site, visits } in processes {
        visits.stop().await;
        last = Some(site);
    }
    deployment(&last.expect("a process")).settle(&history).await;
    history.save(name);
    let summary = history.check(promise).unwrap_or_else(|violation| panic!("{name}: {violation}"));
    assert!(summary.acknowledged > 0 && summary.reads > 0, "{summary:?}");
    eprintln!("{name}: {kills} kills, {summary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_agree_with_requests_while_processes_are_killed_on_redis() {
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = redis.url();
    check("reads_on_redis", &url, Promise::Immediate, || {
        redis.kill();
        redis.restart();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_agree_with_requests_while_processes_are_killed_on_sqlite() {
    let folder = TempDir::new().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("counts.db").display());
    check("reads_on_sqlite", &url, Promise::Immediate, || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_agree_with_requests_while_processes_are_killed_on_postgres() {
    let mut postgres = block_in_place(Postgres::start);
    let url = postgres.url();
    check("reads_on_postgres", &url, Promise::Immediate, || {
        postgres.kill();
        postgres.restart();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_agree_with_requests_while_processes_are_killed_on_mariadb() {
    let mut mariadb = block_in_place(MariaDb::start);
    let url = mariadb.url();
    check("reads_on_mariadb", &url, Promise::Acknowledged, || {
        mariadb.kill();
        mariadb.restart();
    })
    .await;
}
