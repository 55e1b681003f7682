use std::fs;
use std::path::Path;
use std::time::Duration;

use counter_core::{Counters, SqlStore};
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::load::{Load, open};

const LIFE: Duration = Duration::from_millis(900);

/// The end of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Kill,
    Shutdown,
}

/// Counts with a spool for a while, and then ends either like a killed process or with a shutdown. Files of earlier processes
/// are taken over. The store is unavailable part of the time.
///
/// `written N` follows when N hits of this process are in the file or in the store. `applied N` follows when the store has
/// acknowledged N hits of this process, or of the files that were taken over.
pub(crate) async fn run(folder: &Path, seed: u64, end: End) -> Result<(), Failure> {
    let mut load = Load::new(folder, seed)?;
    load.mark("life", seed)?;
    let (path, moved) = (folder.join("counts.db"), folder.join("counts.db.moved"));
    if moved.exists() {
        fs::rename(&moved, &path)?;
    }
    // Creates the tables. The second store does not, so that a missing file is not created again on a slow machine.
    drop(open(&path).await?);
    let store = SqlStore::builder().connect(&format!("sqlite:{}", path.display())).await?;
    let counters =
        Counters::builder(store).flush_interval(Duration::from_millis(40)).spool(folder).build()?;
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let upkeep = counters.spawn();
    let (mut written, mut applied) = (0, 0);
    let begun = Instant::now();
    while begun.elapsed() < LIFE {
        let hits = 1 + load.chance.below(15);
        load.record(&recorder, hits)?;
        let hits = stats.ledger().hits;
        if hits.applied > applied {
            applied = hits.applied;
            load.mark("applied", applied)?;
        }
        let now_written = load.recorded - stats.health().spool.ok_or("there is a spool")?.unwritten;
        if now_written > written {
            written = now_written;
            load.mark("written", written)?;
        }
        if load.chance.holds(4) {
            switch(&path, &moved)?;
        }
        sleep(Duration::from_millis(5)).await;
    }
    if end == End::Kill {
        // A return would drop the runtime, and thus close the file.
        #[expect(clippy::exit, reason = "simulates a kill")]
        std::process::exit(0);
    }
    if moved.exists() {
        switch(&path, &moved)?;
    }
    upkeep.stop().await?;
    load.mark("applied", stats.ledger().hits.applied)?;
    load.mark("stopped", load.recorded)
}

/// Moves the database away, so that the store is unavailable, or back.
fn switch(path: &Path, moved: &Path) -> Result<(), Failure> {
    match (path.exists(), moved.exists()) {
        (true, false) => Ok(fs::rename(path, moved)?),
        (false, true) => Ok(fs::rename(moved, path)?),
        _ => Err("the store was away for too long and has been created again".into()),
    }
}
