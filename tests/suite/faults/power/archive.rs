//! Power cuts of machines with the near and the far store of an archive.

use std::num::NonZeroU32;

use counter_core::archive::Archive;
use counter_core::time::{Grid, Retention};
use counter_core::visits::store::Read;
use counter_core::{Counters, Precisions, Timestamp};
use tests::powercut::{Cut, Journal};

use super::{Disks, PAGES, PAIRS, check_integrity, marked, names, numbers, open, storm, sum};
use crate::support::precision;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_of_either_store_of_an_archive_loses_no_acknowledged_hit() {
    let fails: &[fn(&str) -> bool] =
        &[|_| true, |name| name.starts_with("near"), |name| name.starts_with("far")];
    storm(&["archive"], Disks { fails, is_numbered: |_| false }, check).await;
}

async fn check(journal: &Journal, cut: &Cut<'_>) {
    let cleaned: u64 = numbers(journal, "cleaned").map(|(_, samples)| samples).sum();
    assert!(cleaned > 0, "nothing is only in the archive");
    let paths = ["near.db", "far.db"].map(|name| cut.folder.join(name));
    let archive = archive(open(&paths[0]).await, open(&paths[1]).await);
    let counters = names(&[&PAGES[..], &PAIRS[..]].concat());
    let lifetimes = async || {
        let lifetimes = archive.lifetimes(&counters).await.expect("readable").into_iter();
        lifetimes.map(|total| total.expect("readable")).sum::<u64>()
    };
    let hits = lifetimes().await;
    let (acknowledged, announced) = (marked(journal, cut, "acknowledged"), marked(journal, cut, "announced"));
    assert!((acknowledged..=announced).contains(&hits), "{hits} of {acknowledged}..={announced} hits");
    // Seconds are in either store or in both, and days are only in the near store.
    assert_eq!(sum(&archive, &counters, precision(1)).await, hits, "by the second");
    assert_eq!(sum(&archive, &counters, precision(86_400)).await, hits, "by day");
    for path in &paths {
        check_integrity(path).await;
    }

    let retention = |width, samples| Retention {
        precision: precision(width),
        samples: NonZeroU32::new(samples).expect("not 0"),
    };
    let precisions = Precisions::new([retention(1, 2), retention(86_400, 10)]).expect("a set");
    let writer = Counters::builder(archive.clone()).precisions(precisions);
    let mut writer = writer.build().expect("good settings");
    let recorder = writer.recorder();
    recorder.record(recorder.counter("a"), None);
    writer.flush().await.expect("the store can be written");
    archive.copier(writer.stats().grid()).without_lease().copy_once(Timestamp::now()).await.expect("copied");
    assert_eq!((lifetimes().await, sum(&archive, &counters, precision(86_400)).await), (hits + 1, hits + 1));
}

fn archive(near: counter_core::SqlStore, far: counter_core::SqlStore) -> Archive {
    let seconds = Retention { precision: precision(1), samples: NonZeroU32::MAX };
    let seconds = Precisions::new([seconds]).expect("a set");
    Archive::new(near, far).keep(Grid { counts: seconds.clone(), visitors: seconds, ..Grid::default() })
}
