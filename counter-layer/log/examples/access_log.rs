//! An import of access logs, compressed or not. Each line counts once.
//!
//! ```sh
//! cargo run -p counter-log --example access_log -- /var/log/nginx/access.log /var/log/nginx/access.log.*.gz
//! ```
//!
//! This prints the hits of each log, and the hits of all pages, e.g. `/articles/{id}: 17`. If you pass a log
//! twice, or a copy of it, even a compressed one, the second import counts 0 hits.
//!
//! The counts are in memory, so they end with the program. With a `RedisStore`, you can import a log while it
//! is growing, and again after that: only the new lines will be counted.

#![expect(clippy::print_stdout, reason = "prints the result for the user")]

use std::env::args_os;
use std::error::Error;
use std::path::Path;

use counter_core::source::Sources;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Rule, Rules};
use counter_log::{Fingerprint, Format, Import, LogCounter, LogFile, LogIndex, Parser};

/// Counts a log, unless its lines have already been counted as part of another log.
async fn count(
    path: &Path,
    sources: &Sources,
    index: &LogIndex,
    layer: &AccessCounterLayer,
) -> Result<(), Box<dyn Error>> {
    let log = LogFile::open(path)?;
    // The source is named after the content, because rotation changes the name of a file.
    let Some(fingerprint) = Fingerprint::read(log.reopen()?)? else {
        return Ok(()); // no complete line yet
    };
    let name: counter_core::source::SourceName = format!("web-1:{fingerprint}").parse()?;
    let position = sources.open(name.clone()).await?.position();
    let format = Format::combined();
    index.admit(&name, position, Parser::new(format.clone()), log.reopen()?.into_lines(0)).await?;
    let mut import = Import::new(sources.clone(), format, LogCounter::new(layer)).without_marks();
    let open = |position| {
        let mut log = log.reopen()?;
        Ok(log.skip_to(position)?.then(|| log.into_lines(position)))
    };
    import.count(name, open).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).build()?;
    let (sources, index) = (counters.sources().history(), LogIndex::new(store, "web-1"));
    // A log does not contain the matched route, so we need rules to determine the counters.
    let rules = Rules::builder()
        .rule(Rule::counter("/articles/{id}").pattern("/articles/{id}"))
        .default_counter("other pages")
        .build()?;
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules);

    let (stats, mut before) = (counters.stats(), 0);
    for path in args_os().skip(1) {
        let path = Path::new(&path);
        if let Err(error) = count(path, &sources, &index, &layer).await {
            println!("{}: {error}", path.display());
        }
        let hits = stats.lifetimes(&["hits".parse()?]).await?[0];
        println!("{}: {} hits", path.display(), hits - before);
        before = hits;
    }
    let known = stats.list_counters(None, 100).await?.counters;
    let names: Vec<_> = known.into_iter().map(|(name, _)| name).collect();
    for (name, count) in names.iter().zip(stats.lifetimes(&names).await?) {
        println!("{name}: {count}");
    }
    Ok(())
}
