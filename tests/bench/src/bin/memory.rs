//! Memory benchmark: how much memory a counter needs in the process and in Redis.

use std::error::Error;
use std::num::NonZeroU32;

use bench::server::Figures;
use bench::{past, table};
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counter, Counters, RedisStore, Timestamp};
use tests::RedisServer;

const COUNTERS: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    in_process()?;
    counters_in_redis();
    sketches_in_redis()
}

/// Runs a closure and returns how many bytes it leaves allocated, divided by the number of counters.
fn grown<T>(work: impl FnOnce() -> T) -> (T, String) {
    let mut made = None;
    let grown = allocation_counter::measure(|| made = Some(work())).bytes_current;
    (made.expect("it was made"), format!("{:.0}", grown as f64 / COUNTERS as f64))
}

fn in_process() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = RedisServer::start();
    let store = runtime.block_on(RedisStore::connect(&server.url(), Namespace::default()))?;
    let names = past::names(COUNTERS);
    let key = VisitorKey::new([7; 16]);
    let start = Timestamp::now();
    let ((mut site, counters), named) = grown(|| {
        let site = Counters::builder(store).build().expect("the defaults are fine");
        let counters: Vec<_> = names.iter().map(|name| site.recorder().counter(name)).collect();
        (site, counters)
    });
    let recorder = site.recorder();
    let record = |counters: &[Counter], second, visitor: Option<u64>| {
        for counter in counters {
            let visitor = visitor.map(|number| key.visitor(&[&number.to_le_bytes()]));
            recorder.record_at(*counter, visitor, start.plus(second), NonZeroU32::MIN);
        }
    };
    let ((), hit) = grown(|| record(&counters, 0, None));
    let ((), idle) = grown(|| runtime.block_on(site.flush()).expect("the server is there"));
    let ((), minute) = grown(|| {
        for second in 1..60 {
            record(&counters, second, None);
            runtime.block_on(site.flush()).expect("the server is there");
        }
    });
    let ((), visitors) = grown(|| record(&counters, 60, Some(0)));
    let ((), more) = grown(|| (1..200).for_each(|visitor| record(&counters, 60, Some(visitor))));
    println!("Bytes per counter in the process, with {COUNTERS} counters and one thread:\n");
    table::print(
        &["allocation", "additional bytes"],
        &[
            ["name and table slot", &named],
            ["a pending hit", &hit],
            ["the batch, retained for a minute", &idle],
            ["batches of 59 more seconds, at most 16 MiB", &minute],
            ["a visitor: the registers of the open bucket", &visitors],
            ["199 more visitors", &more],
        ]
        .map(|row| row.map(str::to_owned).into()),
    );
    Ok(())
}

fn counters_in_redis() {
    let (now, precisions) = (Timestamp::now(), past::default_precisions());
    let rows = [1, 120, 180, 400].map(|samples| {
        let server = RedisServer::start();
        let before = Figures::of(&server);
        past::write(&server, "access:", &past::names(COUNTERS), &precisions, samples, now);
        let bytes = Figures::of(&server).since(&before).memory as f64 / COUNTERS as f64;
        let encoding = server.command(&["OBJECT", "ENCODING", "access:count:60:/articles/7"]);
        vec![
            samples.to_string(),
            format!("{bytes:.0}"),
            format!("{:.1}", bytes / (7 * samples) as f64),
            encoding.text().expect("an encoding is text"),
        ]
    });
    let columns = ["samples per precision", "bytes per counter", "bytes per sample", "encoding"];
    println!("Bytes in Redis for a counter with seven precisions:\n");
    table::print(&columns, &rows);
}

fn sketches_in_redis() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = RedisServer::start();
    let store = runtime.block_on(RedisStore::connect(&server.url(), Namespace::default()))?;
    let mut site = Counters::builder(store).build()?;
    let recorder = site.recorder();
    let key = VisitorKey::new([7; 16]);
    let mut rows = Vec::new();
    for visitors in [1_u32, 10, 100, 1000, 2000, 10_000, 100_000] {
        let counter = recorder.counter(&format!("of {visitors}"));
        for number in 0..visitors {
            recorder.record(counter, key.visitor(&[&number.to_le_bytes()]));
        }
        runtime.block_on(site.flush())?;
        let keys = server.strings(&["KEYS", &format!("access:unique:86400:of {visitors}:*")]);
        rows.push(vec![visitors.to_string(), server.int(&["MEMORY", "USAGE", &keys[0]]).to_string()]);
    }
    println!("Bytes in Redis for the visitors of a counter in a bucket:\n");
    table::print(&["visitors", "bytes"], &rows);
    Ok(())
}
