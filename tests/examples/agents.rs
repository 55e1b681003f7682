//! Bot detection accuracy on lists of user agents.
//!
//! `cargo run --release -p tests --example agents FOLDER` reads all files in the folder. Lines consist of
//! `bot` or `browser`, a tab, and a user agent. Prints the share of correct results for a file. If you append
//! `wrong`, it also prints the misclassified lines.

use std::convert::Infallible;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Identity};
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use tower::{Layer, ServiceExt, service_fn};

/// Number of user agents of a kind, and how many are classified correctly.
#[derive(Clone, Copy, Default)]
struct Share {
    right: u64,
    all: u64,
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the program prints its results")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (folder, wrong) = match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [folder] => (*folder, false),
        [folder, "wrong"] => (*folder, true),
        _ => return Err("usage: agents FOLDER [wrong]".into()),
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();

    let counters = Counters::builder(MemoryStore::new()).build()?;
    let recorder = counters.recorder();
    let layer = AccessCounterLayer::new(recorder.clone()).identity(Identity::none())?;
    println!("| list | bots | right | browsers | right |\n|---|--:|--:|--:|--:|");
    for file in files {
        let mut shares = [Share::default(); 2];
        for line in fs::read(&file)?.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let (bot, user_agent) = match line.splitn(2, |byte| *byte == b'\t').collect::<Vec<_>>()[..] {
                [b"bot", user_agent] => (true, user_agent),
                [b"browser", user_agent] => (false, user_agent),
                _ => return Err(format!("{}: neither bot nor browser", file.display()).into()),
            };
            let before = recorder.ledger().requests.bots;
            let mut request = Request::new(());
            request.headers_mut().insert(USER_AGENT, HeaderValue::from_bytes(user_agent)?);
            let service = layer.layer(service_fn(async |_| Ok::<_, Infallible>(Response::new(()))));
            service.oneshot(request).await?;
            let right = (recorder.ledger().requests.bots > before) == bot;
            let share = &mut shares[usize::from(!bot)];
            share.all += 1;
            share.right += u64::from(right);
            if wrong && !right {
                println!("{}", String::from_utf8_lossy(line));
            }
        }
        let [bots, browsers] = shares.map(|share| match share.all {
            0 => "0 | ".to_owned(),
            all => format!("{all} | {:.2} %", 100.0 * share.right as f64 / all as f64),
        });
        println!("| {} | {bots} | {browsers} |", file.file_stem().unwrap_or_default().to_string_lossy());
    }
    Ok(())
}
