use super::distinct::{Contents, Distinct, intersection};
use super::store::{Included, UniqueKey, UniqueStore};
use crate::error::{Error, ErrorKind};
use crate::family::operations::measured;

/// Maximum number of items per call.
pub(super) const MAX_ITEMS: usize = 500;
/// Maximum item length in bytes, which limits a call with 500 items to 128 KB.
pub(super) const MAX_ITEM_BYTES: usize = 256;
/// Maximum number of counters in a union or merge.
const MAX_COUNTERS: usize = 32;
/// Maximum number of counters in an intersection, which needs to compute the union of every combination.
const MAX_INTERSECTED: usize = 5;
/// Maximum number of set items to read for a union, intersection or merge (25 MB).
const MAX_ITEMS_READ: usize = 100_000;

/// A counter of distinct items that sends every call to the store.
///
/// Items are arbitrary bytes, up to 256, and can be empty. Personal data like an address should be passed
/// through a [`VisitorKey`](crate::visitor::VisitorKey) that is not in the store, e.g. the key of a
/// [`Secret`](crate::Secret), because the resulting [`VisitorId`](crate::VisitorId) can be used as an item.
/// To choose between the counters, see the [guide](crate::guide::unique).
///
/// ```
/// use counter_core::unique::{Distinct, SetUniqueCounter, UniqueCounter};
/// use counter_core::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let voters = SetUniqueCounter::new(MemoryStore::new(), "voters".parse()?);
/// assert!(voters.include("ann").await?);
/// assert!(!voters.include("ann").await?);
/// assert_eq!(voters.include_all(["bob", "ann", "bob"]).await?.new, 1);
/// assert_eq!(voters.count().await?, Distinct::Exact(2));
/// # Ok(())
/// # }
/// ```
///
/// # Failures
///
/// If the server reports that a call is not executed, e.g. because it is still loading data, the call will be
/// retried for about two seconds. Reads and removals are idempotent, so these will be retried on any failure.
/// If the response to [`include`](Self::include) or [`exclude`](ExcludingCounter::exclude) is lost, we can't
/// know if the call took effect, and the error will be [`Unavailable`](ErrorKind::Unavailable). Retrying is
/// safe, but may return `false` for a change made by the lost call. An attempt never starts later than two
/// seconds into the call, and a request to the server times out at 5 s.
pub trait UniqueCounter: Sync {
    /// Returns the store that holds the counter.
    fn store(&self) -> &dyn UniqueStore;

    /// Returns the counter key in this store.
    fn key(&self) -> &UniqueKey;

    /// Adds an item and returns `true` if it is new.
    ///
    /// As long as the counter is exact, this result is exact as well. For an estimate, `true` always means a
    /// new item, but `false` can also be returned for a new item if it doesn't raise a register, which gets
    /// more likely as the counter grows.
    ///
    /// # Errors
    /// Fails if the item is longer than 256 bytes, or if the store is unavailable.
    ///
    /// # Cancel safety
    /// If the future is dropped, the item may still be added.
    fn include(&self, item: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, Error>> + Send {
        let items = checked([item]);
        measured("unique_include", async move {
            let included = self.store().include(self.key(), &items?).await?;
            Ok(included.new > 0)
        })
    }

    /// Adds up to 500 items atomically. Returns the number of distinct new items, and if the counter is
    /// exact. An empty call doesn't change the counter.
    ///
    /// # Errors
    /// Fails if there are more than 500 items, if an item is longer than 256 bytes, or if the store is
    /// unavailable. In this case either all items are added or the counter is unchanged.
    ///
    /// # Cancel safety
    /// If the future is dropped, the items may still be added.
    fn include_all<I>(&self, items: I) -> impl Future<Output = Result<Included, Error>> + Send
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let items = checked(items);
        measured("unique_include", async move {
            let items = items?;
            if items.is_empty() {
                let exact = self.store().distinct(self.key()).await?.is_exact();
                return Ok(Included { new: 0, exact });
            }
            self.store().include(self.key(), &items).await
        })
    }

    /// Returns the number of distinct items, which is 0 for an unused counter.
    ///
    /// # Errors
    /// Fails if the store can't be read.
    fn count(&self) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_count", self.store().distinct(self.key()))
    }

    /// Returns the number of distinct items in the union of this counter with other counters from the same
    /// store. The result is exact if all counters are exact. Counters can be of any kind and on any shard;
    /// they are read sequentially.
    ///
    /// # Errors
    /// Fails if there are more than 32 counters, if the sets contain more than 100,000 items, or if the store
    /// can't be read.
    fn union(&self, others: &[&UniqueKey]) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_union", async move {
            let all = contents(self.store(), Some(self.key()), others, MAX_COUNTERS).await?;
            Ok(union(all).count())
        })
    }

    /// Returns the number of distinct items that this counter shares with all other given counters. The
    /// result is exact if all counters are exact.
    ///
    /// With a HyperLogLog in the list, the result is computed from the counts of the counters and of all
    /// unions, so these errors add up. A small intersection of large counters will be imprecise: for two
    /// counters with a million items, the error is about 11,000.
    ///
    /// # Errors
    /// Fails if there are more than 5 counters, if the sets contain more than 100,000 items, or if the store
    /// can't be read.
    fn intersection(&self, others: &[&UniqueKey]) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_intersection", async move {
            Ok(intersection(contents(self.store(), Some(self.key()), others, MAX_INTERSECTED).await?))
        })
    }

    /// Removes the counter and all items. If it is used later, the counter will start from zero.
    ///
    /// # Errors
    /// Fails if the store is unavailable. You can safely retry.
    fn forget(&self) -> impl Future<Output = Result<(), Error>> + Send {
        measured("unique_forget", self.store().remove(self.key()))
    }
}

/// A unique counter that supports removing items.
///
/// This is not implemented for a HyperLogLog, because a register doesn't record the items that raise it.
pub trait ExcludingCounter: UniqueCounter {
    /// Removes an item and returns `true` if it is in the counter.
    ///
    /// # Errors
    /// Fails if the item is longer than 256 bytes, or if the store is unavailable.
    ///
    /// # Cancel safety
    /// If the future is dropped, the item may still be removed.
    fn exclude(&self, item: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, Error>> + Send {
        let items = checked([item]);
        measured("unique_exclude", async move {
            let excluded = self.store().exclude(&self.key().name, &items?).await?;
            Ok(excluded > 0)
        })
    }
}

/// Copies the items to be sent and checks the limits.
fn checked<I>(items: I) -> Result<Vec<Vec<u8>>, Error>
where
    I: IntoIterator<Item: AsRef<[u8]>>,
{
    let mut checked = Vec::new();
    for item in items {
        let bytes = item.as_ref();
        if bytes.len() > MAX_ITEM_BYTES {
            return Err(Error::new(ErrorKind::ItemTooLong { bytes: bytes.len(), max: MAX_ITEM_BYTES }));
        }
        if checked.len() == MAX_ITEMS {
            return Err(Error::new(ErrorKind::TooManyItems { max: MAX_ITEMS as u64 }));
        }
        checked.push(bytes.to_vec());
    }
    Ok(checked)
}

/// Reads the contents of all counters. Reads are sequential because the item limit applies to the total.
async fn contents(
    store: &dyn UniqueStore,
    first: Option<&UniqueKey>,
    others: &[&UniqueKey],
    max: usize,
) -> Result<Vec<Contents>, Error> {
    let counters: Vec<_> = first.into_iter().chain(others.iter().copied()).collect();
    if counters.len() > max {
        return Err(Error::new(ErrorKind::TooManyCounters { max: max as u64 }));
    }
    let (mut all, mut left) = (Vec::with_capacity(counters.len()), MAX_ITEMS_READ);
    for counter in counters {
        let contents = match store.contents(counter, left).await {
            Err(error) if matches!(error.kind(), ErrorKind::TooManyItems { .. }) => {
                return Err(Error::new(ErrorKind::TooManyItems { max: MAX_ITEMS_READ as u64 }));
            }
            contents => contents?,
        };
        if let Contents::Items(items) = &contents {
            left -= items.len();
        }
        all.push(contents);
    }
    Ok(all)
}

fn union(all: Vec<Contents>) -> Contents {
    all.into_iter().fold(Contents::default(), Contents::union)
}

/// Merges the contents of other counters. If any of these has registers, `into` must support registers too.
pub(super) async fn merge(
    store: &dyn UniqueStore,
    into: &UniqueKey,
    others: &[&UniqueKey],
) -> Result<(), Error> {
    match union(contents(store, None, others, MAX_COUNTERS).await?) {
        Contents::Items(items) => {
            let items: Vec<_> = items.into_iter().collect();
            for items in items.chunks(MAX_ITEMS) {
                store.include(into, items).await?;
            }
            Ok(())
        }
        Contents::Registers(sketch) => store.merge_registers(into, &sketch).await,
    }
}
