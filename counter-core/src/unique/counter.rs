use super::distinct::intersection;
use crate::operations::measured;
use crate::unique::{Contents, Distinct, Included, UniqueKey, UniqueStore};
use crate::{Error, ErrorKind};

/// Items of one call.
const ITEMS: usize = 500;
/// Bytes of an item, which a call of 500 takes to 128 KB.
const ITEM_BYTES: usize = 256;
/// Counters of one union or merge.
const COUNTERS: usize = 32;
/// Counters of one intersection: the unions of all choices of them are looked at.
const INTERSECTED: usize = 5;
/// Items of sets that one union, intersection or merge reads: 25 MB at most.
const READ: usize = 100_000;

/// A counter of different items, which asks the store at once.
///
/// An item is up to 256 bytes of any kind, none included. What names a person, such as an address, belongs
/// through a [`VisitorKey`](crate::visitor::VisitorKey) first that is not in the store, such as that of a
/// [`Secret`](crate::Secret); a [`VisitorId`](crate::VisitorId) is an item. The
/// [guide](crate::guide::unique) says which of the counters to choose.
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
/// What the server says it did not do, such as while it loads its data, is done again for about two seconds,
/// and so are reading and forgetting after any failure, for they may be done twice. When the answer to
/// [`include`](Self::include) or [`exclude`](ExcludingCounter::exclude) is lost, nobody knows whether it was
/// done: the error is [`Unavailable`](ErrorKind::Unavailable). Calling again brings the counter into the
/// state that was wanted, but may answer `false` for what the lost call did. No attempt begins later than
/// two seconds after the first, and each exchange with a server ends after 5 s.
pub trait UniqueCounter: Sync {
    /// The store it is kept in.
    fn store(&self) -> &dyn UniqueStore;

    /// Which counter of the store it is.
    fn key(&self) -> &UniqueKey;

    /// Adds an item; answers whether it was new.
    ///
    /// As long as the counter is exact, that is so. As an estimate, `true` means that it certainly was, and
    /// `false` that it may have been here before: the more items there are, the fewer new ones raise a register.
    ///
    /// # Errors
    /// When the item is longer than 256 bytes, or the store cannot do it now.
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

    /// Adds up to 500 items in one step; answers how many of them were new, each of them once, and whether
    /// the counter is exact. Without any it changes nothing.
    ///
    /// # Errors
    /// When there are more than 500, one is longer than 256 bytes, or the store cannot do it now. Then all of
    /// them were added, or none.
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

    /// How many different items were added; 0 when nobody added any.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn count(&self) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_count", self.store().distinct(self.key()))
    }

    /// How many different items this counter and these others of the same store have together: exactly when
    /// all of them are exact. They may be of any kinds, and in any shards; they are read one after the other.
    ///
    /// # Errors
    /// When they are more than 32, their sets have more than 100,000 items, or the store cannot be read.
    fn union(&self, others: &[&UniqueKey]) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_union", async move {
            let all = contents(self.store(), Some(self.key()), others, COUNTERS).await?;
            Ok(union(all).count())
        })
    }

    /// How many different items this counter and all of these others have in common: exactly when all of
    /// them are exact.
    ///
    /// With a HyperLogLog among them it is what their counts and the counts of their unions leave, with the
    /// error of all of these together. So a small intersection of large counters is known badly: of two with
    /// a million items each, to about 11,000.
    ///
    /// # Errors
    /// When they are more than 5, their sets have more than 100,000 items, or the store cannot be read.
    fn intersection(&self, others: &[&UniqueKey]) -> impl Future<Output = Result<Distinct, Error>> + Send {
        measured("unique_intersection", async move {
            Ok(intersection(contents(self.store(), Some(self.key()), others, INTERSECTED).await?))
        })
    }

    /// Removes the counter with all that it has; it begins anew.
    ///
    /// # Errors
    /// When the store cannot do it now; call again.
    fn forget(&self) -> impl Future<Output = Result<(), Error>> + Send {
        measured("unique_forget", self.store().remove(self.key()))
    }
}

/// A unique counter from which items can be taken again. Registers do not know whose they are, so a
/// HyperLogLog is none.
pub trait ExcludingCounter: UniqueCounter {
    /// Takes an item out; answers whether it was in.
    ///
    /// # Errors
    /// When the item is longer than 256 bytes, or the store cannot do it now.
    ///
    /// # Cancel safety
    /// A call that is dropped may still take the item out.
    fn exclude(&self, item: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, Error>> + Send {
        let items = checked([item]);
        measured("unique_exclude", async move {
            let excluded = self.store().exclude(&self.key().name, &items?).await?;
            Ok(excluded > 0)
        })
    }
}

/// The items as they travel.
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

/// What all of these have, one after the other, so that there is one bound for the items of all.
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

/// Adds all that the others have to a counter that takes registers, or that is given sets only.
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
