use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use counter_core::archive::Archive;
use counter_core::time::{Grid, Retention};
use counter_core::{Builder, Counters, Precision, Precisions, Timestamp};
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::load::{Load, open};

/// Seconds leave the near store and are cleaned four times or more.
const TIME: Duration = Duration::from_secs(6);

/// Counts seconds into an archive. The near store keeps two of them, and the far store keeps all.
pub(crate) async fn run(folder: &Path, seed: u64) -> Result<(), Failure> {
    let mut load = Load::new(folder, seed)?;
    let (near, far) = (open(&folder.join("near.db")).await?, open(&folder.join("far.db")).await?);
    let seconds = Retention { precision: Precision::try_from(1)?, samples: NonZeroU32::MAX };
    let seconds = Precisions::new([seconds])?;
    let archive =
        Archive::new(near, far).keep(Grid { counts: seconds.clone(), visitors: seconds, ..Grid::default() });
    let mut counters = counters(&archive)?.build()?;
    let recorder = counters.recorder();
    let mut cleaner = self::counters(&archive)?.build()?.into_parts().1;
    let mut copier = archive.copier(counters.stats().grid()).lateness(Duration::ZERO);
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        let round = Instant::now();
        let hits = 1 + load.chance.below(20);
        load.record(&recorder, hits)?;
        counters.flush().await?;
        load.mark("acknowledged", load.recorded)?;
        let now = Timestamp::now();
        copier.copy_once(now).await?;
        let cleaned = cleaner.clean_once(now).await?;
        load.mark("cleaned", cleaned.samples)?;
        if round.elapsed() > Duration::from_secs(1) {
            return Err("too slow: hits might leave the near store before they are counted or copied".into());
        }
        sleep(Duration::from_millis(load.chance.below(40))).await;
    }
    Ok(())
}

/// Returns counters that keep two seconds in the near store. Days are not archived.
fn counters(archive: &Archive) -> Result<Builder, Failure> {
    let retention = |seconds, samples| -> Result<_, Failure> {
        Ok(Retention { precision: Precision::try_from(seconds)?, samples: NonZeroU32::try_from(samples)? })
    };
    let counts = Precisions::new([retention(1, 2)?, retention(86_400, 10)?])?;
    let visitors = Precisions::new([retention(86_400, 10)?])?;
    Ok(Counters::builder(archive.clone()).precisions(counts).visitor_precisions(visitors))
}
