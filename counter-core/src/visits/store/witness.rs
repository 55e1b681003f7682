/// The state of a store, to distinguish a lost fence from lost data.
///
/// It is possible to just lose the fence, e.g. when it is evicted, deleted by hand, or removed after the
/// writer has been idle for a long time. The counts of its batches are still stored in this case, so we would
/// count them twice if we sent the batches again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// A random mark that is stored with the first data, and lost if the data is lost.
    pub data: Option<String>,
    /// A random mark that is stored with the list of writers. It will be lost if the list is lost, or if
    /// writers are removed from the list.
    pub writers: Option<String>,
    /// True if this writer is in the list of writers.
    pub listed: bool,
    /// True if the server may have evicted keys, so that a missing mark doesn't prove anything.
    pub evicts: bool,
}

impl Witness {
    /// Returns whether both witnesses show the same data, and the same state of the writer.
    #[must_use]
    pub fn has_same_state(&self, other: &Self) -> bool {
        (&self.data, &self.writers, self.listed) == (&other.data, &other.writers, other.listed)
    }

    /// Returns whether the data of the writer has been lost as well, given the witness from when its fence
    /// was created. If in doubt, we assume that the data still exists.
    pub(crate) fn proves_loss_since(&self, before: &Self) -> bool {
        // All data has been lost, e.g. by a restart with no file, by FLUSHALL, or by a failover to an empty
        // replica. If the writer is listed, this server had the fence, and we don't know its earlier witness.
        let other_data = before.data.is_some() && self.data != before.data && !self.listed && !self.evicts;
        // The newest data has been lost, because the store was reset to a state from before this writer.
        let earlier = self.writers.is_some() && self.writers == before.writers && !self.listed;
        other_data || earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witness(data: &str, writers: &str, listed: bool) -> Witness {
        let mark = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Witness { data: mark(data), writers: mark(writers), listed, evicts: false }
    }

    #[test]
    fn data_loss_is_only_assumed_if_a_mark_proves_it() {
        let before = witness("d", "w", true);
        for (now, lost, what) in [
            (witness("", "", false), true, "FLUSHALL"),
            (witness("other", "other", false), true, "FLUSHALL, then a batch from another writer"),
            (witness("d", "w", false), true, "a failover to before this writer"),
            (witness("d", "w", true), false, "the fence was evicted or deleted"),
            (witness("other", "other", true), false, "the same, on another server"),
            (witness("d", "", false), false, "writers were forgotten"),
            (witness("d", "other", false), false, "the list of writers was evicted"),
            (Witness { evicts: true, ..witness("", "", false) }, false, "idle keys were evicted"),
        ] {
            assert_eq!(now.proves_loss_since(&before), lost, "{what}");
        }
        assert!(
            !witness("d", "", false).proves_loss_since(&witness("", "", true)),
            "marks could not be read"
        );
    }
}
