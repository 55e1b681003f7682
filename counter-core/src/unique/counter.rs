use super::distinct::{Contents, Distinct, intersection};
use super::store::{Included, UniqueKey, UniqueStore};
use crate::error::{Error, ErrorKind};
use crate::family::operations::measured;

/// The number of items in one call.
pub(super) const ITEMS: usize = 500;
/// The number of bytes in an item, which makes 128 KB for a call of 500.
pub(super) const ITEM_BYTES: usize = 256;
/// The number of counters in one union or merge.
const COUNTERS: usize = 32;
/// The number of counters in one intersection: the unions of all combinations of them are computed.
const INTERSECTED: usize = 5;
/// The number of items of sets that one union, intersection or merge reads: 25 MB at most.
const READ: usize = 100_000;

/// A counter of different items, which asks the store on every call.
///
/// An item is up to 256 bytes of any kind, and may be empty. Something that identifies a person, such as an
/// address, should first go through a [`VisitorKey`](crate::visitor::VisitorKey) that is not in the store,
/// such as that of a [`Secret`](crate::Secret); the resulting [`VisitorId`](crate::VisitorId) can be used as
/// an item. The [guide](crate::guide::unique) says which of the counters to choose.
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
/// # When something goes wrong
///
/// A call that the server says it did not execute, such as while it loads its data, is tried again for about
/// two seconds. So are reading and forgetting after any failure, since doing them twice changes nothing. When
/// the answer to [`include`](Self::include) or [`exclude`](ExcludingCounter::exclude) is lost, it is not
/// known whether the call was executed: the error is [`Unavailable`](ErrorKind::Unavailable). Calling again
/// brings the counter into the wanted state, but may return `false` for what the lost call did. No attempt
/// begins later than two seconds after the first, and each exchange with a server ends after 5 s.
pub trait UniqueCounter: Sync {
    /// Returns the store that the counter is kept in.
    fn store(&self) -> &dyn UniqueStore;

    /// Returns the key of the counter in its store.
    fn key(&self) -> &UniqueKey;

    /// Adds an item; returns whether it was new.
    ///
    /// As long as the counter is exact, so is the answer. For an estimate, `true` means that the item was
    /// certainly new, and `false` that it may have been there before: the more items there are, the fewer new
    /// ones raise a register.
    ///
    /// # Errors
    /// Fails when the item is longer than 256 bytes, or when the store cannot do it now.
    ///
    /// # Cancel safety
    /// A call that is dropped may still add the item.
    fn include(&self, item: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, Error>> + Send {
        let items = checked([item]);
        measured("unique_include", async move {
            let included = self.store().include(self.key(), &items?).await?;
            Ok(included.new > 0)
        })
    }

    /// Adds up to 500 items in one step; returns how many of them were new, each counted once, and whether
    /// the counter is exact. Without any items it changes nothing.
    ///
    /// # Errors
    /// Fails when there are more than 500 items, when one is longer than 256 bytes, or when the store cannot
    /// do it now. Either all of them were added then, or none.
    ///
    /// # Cancel safety
    /// A call that is dropped may still add the items.
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

    /// Returns how many different items were added; 0 for a counter that was never used.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn count(&self) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_count", self.store().distinct(self.key()))
    }

    /// Returns how many different items this counter and the others of the same store have together: exactly
    /// if all of them are exact. They may be of any kinds, and in any shards; they are read one after the
    /// other.
    ///
    /// # Errors
    /// Fails when there are more than 32, when their sets have more than 100,000 items, or when the store
    /// cannot be read.
    fn union(&self, others: &[&UniqueKey]) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_union", async move {
            let all = contents(self.store(), Some(self.key()), others, COUNTERS).await?;
            Ok(union(all).count())
        })
    }

    /// Returns how many different items this counter and all of the others have in common: exactly if all of
    /// them are exact.
    ///
    /// With a HyperLogLog among them, the result is computed from their counts and the counts of their
    /// unions, with the error of all of these together. So a small intersection of large counters is
    /// imprecise: for two counters with a million items each, the error is about 11,000.
    ///
    /// # Errors
    /// Fails when there are more than 5, when their sets have more than 100,000 items, or when the store
    /// cannot be read.
    fn intersection(&self, others: &[&UniqueKey]) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_intersection", async move {
            Ok(intersection(contents(self.store(), Some(self.key()), others, INTERSECTED).await?))
        })
    }

    /// Removes the counter with all its items; it begins anew.
    ///
    /// # Errors
    /// Fails when the store cannot do it now; call again.
    fn forget(&self) -> impl Future<Output = Result<(), Error>> + Send {
        measured("unique_forget", self.store().remove(self.key()))
    }
}

/// A unique counter that items can be removed from. A register does not record which items raised it, so a
/// HyperLogLog is not one of these.
pub trait ExcludingCounter: UniqueCounter {
    /// Removes an item; returns whether it was there.
    ///
    /// # Errors
    /// Fails when the item is longer than 256 bytes, or when the store cannot do it now.
    ///
    /// # Cancel safety
    /// A call that is dropped may still remove the item.
    fn exclude(&self, item: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, Error>> + Send {
        let items = checked([item]);
        measured("unique_exclude", async move {
            let excluded = self.store().exclude(&self.key().name, &items?).await?;
            Ok(excluded > 0)
        })
    }
}

/// Returns the items as they are sent, if they are within the bounds.
fn checked<I>(items: I) -> Result<Vec<Vec<u8>>, Error>
where
    I: IntoIterator<Item: AsRef<[u8]>>,
{
    let mut checked = Vec::new();
    for item in items {
        let bytes = item.as_ref();
        if bytes.len() > ITEM_BYTES {
            return Err(Error::new(ErrorKind::ItemTooLong { bytes: bytes.len(), most: ITEM_BYTES }));
        }
        if checked.len() == ITEMS {
            return Err(Error::new(ErrorKind::TooManyItems { most: ITEMS as u64 }));
        }
        checked.push(bytes.to_vec());
    }
    Ok(checked)
}

/// Returns the contents of all these counters, read one after the other, so that one bound holds for all
/// items together.
async fn contents(
    store: &dyn UniqueStore,
    first: Option<&UniqueKey>,
    others: &[&UniqueKey],
    most: usize,
) -> Result<Vec<Contents>, Error> {
    let counters: Vec<_> = first.into_iter().chain(others.iter().copied()).collect();
    if counters.len() > most {
        return Err(Error::new(ErrorKind::TooManyCounters { most: most as u64 }));
    }
    let (mut all, mut left) = (Vec::with_capacity(counters.len()), READ);
    for counter in counters {
        let contents = match store.contents(counter, left).await {
            Err(error) if matches!(error.kind(), ErrorKind::TooManyItems { .. }) => {
                return Err(Error::new(ErrorKind::TooManyItems { most: READ as u64 }));
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

/// Adds everything that the others have to a counter that has registers, or that is only given sets.
pub(super) async fn merge(
    store: &dyn UniqueStore,
    into: &UniqueKey,
    others: &[&UniqueKey],
) -> Result<(), Error> {
    match union(contents(store, None, others, COUNTERS).await?) {
        Contents::Items(items) => {
            let items: Vec<_> = items.into_iter().collect();
            for items in items.chunks(ITEMS) {
                store.include(into, items).await?;
            }
            Ok(())
        }
        Contents::Registers(sketch) => store.absorb(into, &sketch).await,
    }
}
