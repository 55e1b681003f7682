use std::path::Path;

use counter_core::source::Commit;
use counter_core::{Counters, Timestamp};

use crate::Failure;
use crate::load::{Load, open};

/// This is enough for a few automatic checkpoints.
const ROUNDS: u64 = 240;

/// Counts hits and the records of a log. `read N` precedes the first write of any of these records, and `committed N` follows
/// when they are counted.
pub(crate) async fn run(folder: &Path, seed: u64) -> Result<(), Failure> {
    let mut load = Load::new(folder, seed)?;
    let mut rounds = 0;
    while rounds < ROUNDS {
        let mut counters = Counters::builder(open(&folder.join("counts.db")).await?).build()?;
        let recorder = counters.recorder();
        let page = recorder.counter("log").hit();
        let mut source = counters.sources().open("log".parse()?).await?;
        for _ in 0..1 + load.chance.below(ROUNDS / 2) {
            rounds += 1;
            let hits = 1 + load.chance.below(60);
            load.record(&recorder, hits)?;
            counters.flush().await?;
            load.mark("acknowledged", load.recorded)?;
            if load.chance.holds(50) {
                let end = source.position() + 1 + load.chance.below(20);
                load.mark("read", end)?;
                for position in source.position()..end {
                    source.record(position..position + 1, Timestamp::now(), &[page]);
                }
                if source.commit().await? != Commit::Done {
                    return Err("there is no other reader".into());
                }
                load.mark("committed", end)?;
            }
        }
        // When the last connection is closed, SQLite removes the log.
    }
    Ok(())
}
