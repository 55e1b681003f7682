use std::fmt;

use crate::future::BoxFuture;
use crate::sketch::Sketch;
use crate::unique::{Contents, Distinct, Threshold};
use crate::{CounterName, Error};

/// A place where unique counters are kept; both stores of this crate are one.
///
/// It is what [`UniqueCounter`](crate::unique::UniqueCounter) is made of, which also keeps its bounds: a store is
/// given at least one item and at most 500, of at most 256 bytes each.
///
/// A store tries for about two seconds again what is known to have done nothing, and, where that cannot
/// change the answer, also what may have done something.
pub trait UniqueStore: fmt::Debug + Send + Sync + 'static {
    /// Adds the items, and turns an adaptive counter into registers when it has more than its threshold.
    ///
    /// # Errors
    /// When the store cannot do it now, or it is not known whether it was done; call again with the same.
    fn include<'a>(
        &'a self,
        counter: &'a UniqueKey,
        items: &'a [Vec<u8>],
    ) -> BoxFuture<'a, Result<Included, Error>>;

    /// Takes the items out of a set; answers how many of them were in it.
    ///
    /// # Errors
    /// When the store cannot do it now, or it is not known whether it was done; call again with the same.
    fn exclude<'a>(&'a self, set: &'a CounterName, items: &'a [Vec<u8>])
    -> BoxFuture<'a, Result<u64, Error>>;

    /// How many different items there are, 0 of a counter that was never used.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn distinct<'a>(&'a self, counter: &'a UniqueKey) -> BoxFuture<'a, Result<Distinct, Error>>;

    /// All that the counter has: of a set every item that was there all the time, and perhaps some of
    /// those that came or went meanwhile.
    ///
    /// # Errors
    /// [`TooManyItems`](crate::ErrorKind::TooManyItems) when a set has more than `most` items, or when the
    /// store cannot be read.
    fn contents<'a>(&'a self, counter: &'a UniqueKey, most: usize) -> BoxFuture<'a, Result<Contents, Error>>;

    /// Raises the registers of a counter to at least these, if there are any; an adaptive one has registers
    /// from then on.
    ///
    /// # Errors
    /// When the counter is a set, or the store cannot do it now; call again with the same.
    ///
    /// # Cancel safety
    /// A call that is dropped may have raised some of them.
    fn absorb<'a>(&'a self, counter: &'a UniqueKey, sketch: &'a Sketch) -> BoxFuture<'a, Result<(), Error>>;

    /// Removes the counter with all that it has.
    ///
    /// # Errors
    /// When the store cannot do it now; call again.
    fn remove<'a>(&'a self, counter: &'a UniqueKey) -> BoxFuture<'a, Result<(), Error>>;
}

/// Whatever has a store of unique counters in it is one.
impl<T: AsRef<dyn UniqueStore> + fmt::Debug + Send + Sync + 'static> UniqueStore for T {
    fn include<'a>(
        &'a self,
        counter: &'a UniqueKey,
        items: &'a [Vec<u8>],
    ) -> BoxFuture<'a, Result<Included, Error>> {
        self.as_ref().include(counter, items)
    }

    fn exclude<'a>(
        &'a self,
        set: &'a CounterName,
        items: &'a [Vec<u8>],
    ) -> BoxFuture<'a, Result<u64, Error>> {
        self.as_ref().exclude(set, items)
    }

    fn distinct<'a>(&'a self, counter: &'a UniqueKey) -> BoxFuture<'a, Result<Distinct, Error>> {
        self.as_ref().distinct(counter)
    }

    fn contents<'a>(&'a self, counter: &'a UniqueKey, most: usize) -> BoxFuture<'a, Result<Contents, Error>> {
        self.as_ref().contents(counter, most)
    }

    fn absorb<'a>(&'a self, counter: &'a UniqueKey, sketch: &'a Sketch) -> BoxFuture<'a, Result<(), Error>> {
        self.as_ref().absorb(counter, sketch)
    }

    fn remove<'a>(&'a self, counter: &'a UniqueKey) -> BoxFuture<'a, Result<(), Error>> {
        self.as_ref().remove(counter)
    }
}

/// Which unique counter: its name, and how it counts. The same name counts apart for each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// Its name.
    pub name: CounterName,
    /// How it counts.
    pub kind: UniqueKind,
}

/// How a unique counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueKind {
    /// By keeping every item.
    Set,
    /// By the registers of a HyperLogLog.
    Sketch,
    /// As a set up to so many items, and by registers from then on.
    Adaptive(Threshold),
}

/// What including items did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    /// How many of them were new: of a set, those that were not in it; of registers, those that raised one.
    pub new: u64,
    /// Whether the counter still has every item, so that it counts exactly.
    pub exact: bool,
}

impl fmt::Display for UniqueKey {
    /// The end of its key in Redis, such as `set:voters`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            UniqueKind::Set => "set",
            UniqueKind::Sketch => "hll",
            UniqueKind::Adaptive(_) => "adaptive",
        };
        write!(f, "{kind}:{}", self.name)
    }
}
