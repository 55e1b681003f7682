//! A model of a server that stores the counts of processes: names, fences and a witness. It decides with the
//! code that the real stores use.

use std::collections::{BTreeMap, HashMap, HashSet};

use counter_core::stores::WriterId;
use counter_core::visits::store::{ApplyOutcome, Batch, Fence, StoredFence, Witness};

/// Whether and how a server shows a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// A witness that is lost only with the data.
    Witness,
    /// A witness that can be evicted with the fences.
    EvictableWitness,
    /// No witness. A fence is then kept for a week.
    Nothing,
}

/// The state of a server at an instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    /// Hits by counter.
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) fences: HashMap<WriterId, StoredFence>,
    listed: HashSet<WriterId>,
    mark: Option<String>,
    /// All writers, even if their fence was evicted.
    writers: HashSet<WriterId>,
}

impl Server {
    pub(crate) fn witness(&self, shows: Shows, writer: WriterId) -> Option<Witness> {
        let (mark, listed) = (self.mark.clone(), self.listed.contains(&writer));
        let evicts = shows == Shows::EvictableWitness;
        (shows != Shows::Nothing).then(|| Witness { data: mark.clone(), writers: mark, listed, evicts })
    }

    pub(crate) fn apply(&mut self, batch: &Batch, shows: Shows) -> ApplyOutcome {
        let Fence { writer, .. } = batch.fence;
        let found = self.fences.get(&writer).copied().unwrap_or_default();
        if let Some(outcome) = batch.fence.outcome(found, Vec::new) {
            return outcome;
        }
        if batch.fence.is_opening() {
            assert_eq!(batch.hits(), 0, "a batch with counts would create a fence");
            let now = self.witness(shows, writer);
            if batch.witness.iter().zip(now).any(|(before, now)| !before.has_same_state(&now)) {
                return ApplyOutcome::SequenceGap { found: StoredFence::default() };
            }
            self.mark.get_or_insert_with(|| WriterId::random().to_string());
            self.listed.insert(writer);
        }
        self.writers.insert(writer);
        for cell in &batch.cells {
            *self.counts.entry(cell.counter.to_string()).or_default() += cell.count().expect("a count");
        }
        self.fences.insert(writer, batch.fence.applied_to(found));
        ApplyOutcome::Applied(Vec::new())
    }

    /// Loses all fences, and also the witness if it can be evicted.
    pub(crate) fn evict_fences(&mut self, shows: Shows) {
        self.fences.clear();
        if shows == Shows::EvictableWitness {
            (self.mark, self.listed) = (None, HashSet::new());
        }
    }

    /// Returns `true` if no fence is missing.
    pub(crate) fn has_all_fences(&self) -> bool {
        self.writers.iter().all(|writer| self.fences.contains_key(writer))
    }

    pub(crate) const fn has_mark(&self) -> bool {
        self.mark.is_some()
    }
}
