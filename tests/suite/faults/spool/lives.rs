//! Law 1 across restarts of processes with a shared spool, in any order of events: flushes fail or are
//! dropped, processes are killed, the directory disappears and returns, and the store loses replies, fences
//! and recent data. Pending hits need one or more batches, and a batch can reach the store after the sender
//! has ended.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Waker};

use counter_core::visits::SpoolHealth;
use counter_core::{Counters, Recorder, Stats, Timestamp};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::super::histories::{Data, Model};
use super::{folder, over, spool};
use crate::intercepted_store::InterceptedStore;
use crate::random::Random;
use crate::support::name;

const HISTORIES: u64 = 30;

/// Maximum number of hits in a history. This must be a prime.
const HITS: u64 = 997;

struct History {
    model: Model,
    store: InterceptedStore<Model>,
    folder: TempDir,
    process: Option<Process>,
    snapshots: Vec<Data>,
    /// True if the directory is at the expected path.
    is_there: bool,
    /// Number of recorded hits. A hit uses a separate counter that is named after the index.
    recorded: u64,
    /// Hits that were reported as written or stored at some point.
    reported: BTreeSet<u64>,
    /// Hits recorded while the directory is missing, which can't be in a file.
    unspooled: Vec<u64>,
    /// Number of hits that were reported as written, but not when the process ended; or that are reported as
    /// lost or in doubt.
    excused: u64,
    /// Sum of the hits that were unwritten at the end of processes, and sum of the hits reported as lost or
    /// in doubt.
    unwritten: u64,
    in_doubt_or_lost: u64,
    /// True if the address can switch to other servers.
    moves: bool,
    said: Vec<String>,
}

struct Process {
    counters: Counters,
    recorder: Recorder,
    stats: Stats,
    /// Hits recorded by this process.
    hits: Range<u64>,
}

impl History {
    fn start(seed: u64, moves: bool) -> Self {
        // A cell has a sample in each of the seven precisions, so we get either a single batch, batches of
        // three cells, or batches of one cell.
        let samples = [1000, 21, 7][usize::try_from(seed % 3).expect("3")];
        let model = Model::new(seed, true).with_delays(samples);
        let folder = folder();
        let mut lives = Self {
            store: InterceptedStore::new(model.clone()),
            model,
            folder,
            process: None,
            snapshots: vec![Data::default()],
            is_there: true,
            recorded: 0,
            reported: BTreeSet::new(),
            unspooled: Vec::new(),
            excused: 0,
            unwritten: 0,
            in_doubt_or_lost: 0,
            moves,
            said: Vec::new(),
        };
        std::fs::create_dir(lives.path()).expect("ours");
        lives.ensure_process();
        lives
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    fn moved_path(&self) -> PathBuf {
        self.folder.path().join("elsewhere")
    }

    fn restore_directory(&mut self) {
        if !std::mem::replace(&mut self.is_there, true) {
            std::fs::rename(self.moved_path(), self.path()).expect("one file system");
        }
    }

    fn ensure_process(&mut self) -> &mut Process {
        let (path, recorded) = (self.path(), self.recorded);
        self.process.get_or_insert_with(|| {
            let counters = over(&self.store, &path);
            let recorder = counters.recorder();
            // The counter order differs from the order of the hits.
            let step = self.model.among(1..HITS);
            (0..HITS).for_each(|n| _ = recorder.counter(&(n * step % HITS).to_string()));
            Process { recorder, stats: counters.stats(), counters, hits: recorded..recorded }
        })
    }

    /// Records the hits that the process reports as written.
    fn track_written(&mut self) {
        let Some(process) = &self.process else { return };
        if spool(&process.stats).unwritten == 0 {
            self.reported.extend(process.hits.clone());
        }
    }

    /// Ends the process like `kill -9`.
    fn end(&mut self) {
        let Some(Process { stats, hits: process_hits, .. }) = self.process.take() else { return };
        let SpoolHealth { unwritten, failing_for, .. } = spool(&stats);
        if failing_for.is_some() {
            // Batches acknowledged during the failure are not in a file, and would be lost with a failover.
            self.snapshots.clear();
        }
        let reported = self.reported.range(process_hits).count() as u64;
        let is_stored = |hit: &u64| self.model.data(|data| data.by_counter.contains_key(&*title(*hit)));
        // These are also counted as unwritten.
        let unspooled = self.unspooled.drain(..).filter(|hit| !is_stored(hit)).count() as u64;
        self.excused += unwritten.saturating_sub(unspooled).min(reported);
        self.unwritten += unwritten;
        let hits = stats.ledger().hits;
        assert!(hits.balance(), "{hits:?}: {}", self.said.join("; "));
        self.in_doubt_or_lost += hits.dropped.in_doubt + hits.lost_by_server;
    }

    /// Records a hit at a random recent time.
    fn record(&mut self) {
        let at = Timestamp::now().minus(10 * self.model.among(0..3));
        let title = name(&title(self.recorded));
        let process = self.ensure_process();
        let values = process.recorder.label_values("hit").expect("a name").by_page();
        let note = |value| values.note(Some(value), NonZeroU32::MIN);
        let counter = match (title.pair(), title.label()) {
            (Some((_, page, value)), _) => {
                let page = process.recorder.counter(page);
                values.pair(note(value), page, at, NonZeroU32::MIN).expect("there are enough places")
            }
            (None, Some((_, value))) => values.counter(note(value)),
            (None, None) => process.recorder.counter(&title),
        };
        process.recorder.record_at(counter, None, at, NonZeroU32::MIN);
        process.hits.end += 1;
        if !self.is_there {
            self.unspooled.push(self.recorded);
        }
        self.recorded += 1;
        assert!(self.recorded < HITS, "fewer counters than hits");
    }

    /// Cuts some hits into a batch and queues more hits, also in the file, and leaves the store unavailable.
    async fn outage(&mut self) {
        self.model.set_batch_limit(0);
        for _ in 0..2 {
            (0..6).for_each(|_| self.record());
            self.ensure_process().counters.flush().await.expect_err("the store is unavailable");
        }
    }

    async fn step(&mut self) {
        let model = self.model.clone();
        let what = match model.among(if self.moves { 0..24 } else { 0..21 }) {
            0..5 => {
                let hits = 1 + model.among(0..5);
                (0..hits).for_each(|_| self.record());
                format!("{hits} hits")
            }
            5..9 => {
                model.fail(true);
                let sent = self.ensure_process().counters.flush().await.is_ok();
                model.fail(false);
                format!("a flush, {sent}")
            }
            9 => {
                model.fail(true);
                let polls = 1 + model.among(0..6);
                {
                    let mut flush = pin!(self.ensure_process().counters.flush());
                    for _ in 0..polls {
                        if flush.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                            break;
                        }
                        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    }
                }
                model.fail(false);
                format!("a flush that is dropped after {polls} polls")
            }
            10..12 => {
                // A process can't start without the directory.
                self.restore_directory();
                self.end();
                self.ensure_process();
                "another life".to_owned()
            }
            12 | 13 => {
                let (from, to) = (self.path(), self.moved_path());
                let (from, to) = if self.is_there { (from, to) } else { (to, from) };
                std::fs::rename(from, to).expect("one file system");
                self.is_there = !self.is_there;
                self.unspooled.clear();
                format!("the directory is there: {}", self.is_there)
            }
            14 | 15 => {
                self.outage().await;
                model.set_batch_limit(u64::MAX);
                "an outage".to_owned()
            }
            20 if self.is_there => {
                self.outage().await;
                std::fs::rename(self.path(), self.moved_path()).expect("one file system");
                self.is_there = false;
                (0..6).for_each(|_| self.record());
                let batches = model.among(0..12);
                model.set_batch_limit(batches);
                let sent = self.ensure_process().counters.flush().await.is_ok();
                self.track_written();
                model.set_batch_limit(u64::MAX);
                self.restore_directory();
                self.end();
                self.ensure_process();
                format!("a life that ends after {batches} batches, while the disk fails, {sent}")
            }
            16 => {
                self.restore_directory();
                self.unspooled.clear();
                self.ensure_process().counters.run(async {}).await.expect("no failures");
                self.end();
                self.ensure_process();
                // The store has confirmed everything, and there are no files left.
                self.snapshots.clear();
                "an end in order".to_owned()
            }
            17 | 18 if self.is_there => {
                drop(self.ensure_process().counters.flush().await);
                model.close();
                let back = usize::try_from(model.among(1..5)).expect("4");
                match self.snapshots.len().checked_sub(back) {
                    None => "no failover".to_owned(),
                    Some(place) => {
                        self.snapshots.truncate(place + 1);
                        let earlier = self.snapshots[place].clone();
                        model.data(|data| *data = earlier);
                        format!("a failover, {back} back")
                    }
                }
            }
            21.. => {
                model.switch_server();
                "another server".to_owned()
            }
            // If a server loses fences and another server loses data, we can't distinguish this from a server
            // that lost both.
            19 if self.is_there && !self.moves => {
                self.detect_losses().await;
                model.data(|data| data.fences.clear());
                self.snapshots.clear();
                "all fences are lost".to_owned()
            }
            _ => "nothing".to_owned(),
        };
        self.said.push(what);
        self.track_written();
        let data = model.data(|data| data.clone());
        // We must not fail over to a state without the fence, because this would be two faults within a
        // minute.
        if !data.fences.is_empty() || data.hits == 0 {
            self.snapshots.push(data);
        }
    }

    /// Sends a batch, together with leftovers, so that the process detects lost data. If fences are lost
    /// right after a failover, it can't be distinguished from a failover.
    async fn detect_losses(&mut self) {
        self.end();
        self.record();
        self.ensure_process().counters.flush().await.expect("no failures");
    }

    async fn check(mut self, seed: u64) -> (u64, u64) {
        self.restore_directory();
        self.detect_losses().await;
        let process = self.ensure_process();
        process.counters.run(async {}).await.expect("no failures");
        let stats = process.stats.clone();
        self.end();
        let (stored, said) = (self.model.data(|data| data.by_counter.clone()), self.said.join("; "));
        assert_eq!(stats.ledger().hits.pending, 0, "{said}");
        for server in self.model.servers() {
            let doubled: Vec<_> = server.by_counter.iter().filter(|(_, count)| **count > 1).collect();
            assert!(doubled.is_empty(), "{seed}: stored more than once: {doubled:?}: {said}");
        }
        if self.moves {
            // If an ended process has sent hits to a server, they will not be sent to another server.
            return (self.unwritten, self.in_doubt_or_lost);
        }
        let missing: Vec<_> =
            self.reported.iter().filter(|hit| !stored.contains_key(&*title(**hit))).collect();
        let excused = self.excused + self.in_doubt_or_lost;
        assert!(
            missing.len() as u64 <= excused,
            "{seed}: reported as written but not stored: {missing:?}, {excused} excused: {said}"
        );
        (self.unwritten, self.in_doubt_or_lost)
    }
}

/// Returns the counter name of a hit. A third of the hits use a label value, and another third a pair.
fn title(hit: u64) -> String {
    match hit % 3 {
        0 => format!("label:hit:{hit}"),
        1 => format!("label:hit@:/ = {hit}"),
        _ => hit.to_string(),
    }
}

async fn history(seed: u64, moves: bool) -> (u64, u64) {
    let mut lives = History::start(seed, moves);
    for _ in 0..40 {
        lives.step().await;
    }
    lives.check(seed).await
}

/// Runs the histories and returns the number of unwritten hits and of excused hits.
async fn run_all(moves: bool) -> (u64, u64) {
    let (mut running, mut unwritten, mut in_doubt_or_lost) = (JoinSet::new(), 0, 0);
    let mut seeds = Random::histories("histories over a spool", HISTORIES);
    // Histories mostly wait for the disk, so we run eight concurrently.
    seeds.by_ref().take(8).for_each(|seed| _ = running.spawn(history(seed, moves)));
    while let Some(ended) = running.join_next().await {
        let (lost, doubt) = ended.expect("no panic");
        (unwritten, in_doubt_or_lost) = (unwritten + lost, in_doubt_or_lost + doubt);
        seeds.next().map(|seed| running.spawn(history(seed, moves)));
    }
    (unwritten, in_doubt_or_lost)
}

#[tokio::test]
async fn in_any_order_of_events_no_written_hit_is_doubled_or_lost() {
    let (unwritten, in_doubt_or_lost) = run_all(false).await;
    assert!(
        unwritten > 0 && in_doubt_or_lost > 0,
        "these histories show less than they should: {unwritten} {in_doubt_or_lost}"
    );
}

#[tokio::test]
async fn no_server_counts_a_hit_twice_if_the_address_moves() {
    run_all(true).await;
}
