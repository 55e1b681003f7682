/// The state of a store that distinguishes a lost fence from lost data.
///
/// A fence can be lost alone: evicted, removed by hand, or forgotten after a long silence. The counts of its
/// batches are still there then, and sending those batches again would count them twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// A mark that was made with the first data, and is lost with them.
    pub data: Option<String>,
    /// A mark that was made with the list of writers, and is lost with it or when writers are forgotten.
    pub writers: Option<String>,
    /// True if this writer is in the list of writers.
    pub listed: bool,
    /// True if keys may have been removed to make room: a missing mark proves nothing then.
    pub evicts: bool,
}

impl Witness {
    /// Returns whether two witnesses are of the same data and know the same about the writer.
    #[must_use]
    pub fn shows_same(&self, other: &Self) -> bool {
        (&self.data, &self.writers, self.listed) == (&other.data, &other.writers, other.listed)
    }

    /// Returns whether the data of the writer's batches are gone too, given the state that was shown when its
    /// fence was made. Where that is not certain, the data are taken to be there.
    pub(crate) fn shows_loss_since(&self, before: &Self) -> bool {
        // All data are gone: a restart without a file, FLUSHALL, a failover to an empty replica.
        let other_data = before.data.is_some() && self.data != before.data && !self.evicts;
        // The newest data are gone: the store went back to a time before this writer.
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
    fn data_are_taken_for_lost_only_where_a_mark_proves_it() {
        let before = witness("d", "w", true);
        for (now, lost, what) in [
            (witness("", "", false), true, "FLUSHALL"),
            (witness("other", "other", false), true, "FLUSHALL, and another writer came first"),
            (witness("d", "w", false), true, "a failover to before this writer"),
            (witness("d", "w", true), false, "the fence was evicted or deleted"),
            (witness("d", "", false), false, "writers were forgotten"),
            (witness("d", "other", false), false, "the list of writers was evicted"),
            (Witness { evicts: true, ..witness("", "", false) }, false, "everything idle was evicted"),
        ] {
            assert_eq!(now.shows_loss_since(&before), lost, "{what}");
        }
        assert!(!witness("d", "", false).shows_loss_since(&witness("", "", true)), "marks could not be read");
    }
}
