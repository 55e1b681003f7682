//! Checks what readers see of a running site against what its clients did:
//! `history run HOST:PORT PAGE COUNTER DASHBOARD SECONDS [confirmed]`, with the token in `COUNTER_ADMIN_TOKEN`.
//!
//! The page must not have other visitors, and all earlier hits must be stored at the start. With `confirmed`, the
//! site must use `Delivery::BeforeResponse`, and each response acknowledges the hit. Otherwise, hits may be stored
//! later. `HOST:PORT` can be several addresses, separated by commas. All notes are written to the file `history` in
//! the folder `COUNTER_HISTORIES`, if it is set.
//!
//! `history check eventual|monotonic|acknowledged|immediate FILE` checks a file, which can also come from another
//! program. The format is documented in `tests/src/history/log.rs`.

use std::error::Error;
use std::net::ToSocketAddrs;
use std::time::Duration;

use tests::history::site::Site;
use tests::history::{History, Promise};
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the program prints its result")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (history, promise) = match arguments[..] {
        ["run", addresses, page, counter, dashboard, seconds] => {
            (run(addresses, page, counter, dashboard, seconds).await?, Promise::Monotonic)
        }
        ["run", addresses, page, counter, dashboard, seconds, "confirmed"] => {
            (run(addresses, page, counter, dashboard, seconds).await?, Promise::Immediate)
        }
        ["check", promise, file] => (std::fs::read_to_string(file)?.parse()?, promise.parse()?),
        _ => return Err("usage: see the first lines of tests/src/bin/history.rs".into()),
    };
    println!("{:?}", history.check(promise).map_err(|violation| violation.to_string())?);
    Ok(())
}

async fn run(
    addresses: &str,
    page: &str,
    counter: &str,
    dashboard: &str,
    seconds: &str,
) -> Result<History, Box<dyn Error>> {
    let token = std::env::var("COUNTER_ADMIN_TOKEN").map_err(|_| "COUNTER_ADMIN_TOKEN is not set")?;
    let mut sites = Vec::new();
    for address in addresses.split(',') {
        sites.push(Site {
            address: address.to_socket_addrs()?.next().ok_or("the host has no address")?,
            page: page.to_owned(),
            counter: counter.to_owned(),
            dashboard: dashboard.trim_end_matches('/').to_owned(),
            token: token.clone(),
        });
    }
    let history = History::default();
    sites[0].note_earlier_hits(&history).await;
    let visits: Vec<_> = sites.iter().map(|site| site.visit(&history)).collect();
    sleep(Duration::from_secs(seconds.parse()?)).await;
    for visits in visits {
        visits.stop().await;
    }
    sites[0].settle(&history).await;
    history.save("history");
    Ok(history)
}
