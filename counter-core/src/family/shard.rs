use std::fmt;
use std::num::NonZeroU16;

use super::name::sharded_part;
use crate::sketch;

/// The number of shards in a store: 1 to 1,024.
///
/// Counters are assigned to a shard by a hash of the counter name, which can't change later. Therefore all
/// instances that use a store must be configured with the same number, and changing it starts new counters.
///
/// ```
/// use counter_core::stores::Shards;
///
/// let shards = Shards::try_from(16)?;
/// assert_eq!(shards.of("hits"), shards.of("hits"));
/// assert_eq!(shards.iter().count(), 16);
/// assert!(Shards::try_from(0).is_err());
/// # Ok::<(), counter_core::stores::ShardsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(NonZeroU16);

/// A part of a store. Shards are written and cleaned up independently, and can be unavailable independently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u16);

/// An error returned if the number of shards is not between 1 and 1,024.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShardsError(u16);

impl Shards {
    /// A single shard, i.e. the store is not sharded.
    pub const ONE: Self = Self(NonZeroU16::MIN);

    const MAX_SHARDS: u16 = 1024;

    /// Returns the number of shards.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0.get() as usize
    }

    /// Returns all shards in order.
    pub fn iter(self) -> impl Iterator<Item = Shard> {
        (0..self.0.get()).map(Shard)
    }

    /// Returns the shard for a counter name. This is the same shard for all values of a
    /// [label](crate::visits::LabelValues).
    #[must_use]
    pub fn of(self, counter: &str) -> Shard {
        let index = sketch::hash(sharded_part(counter).as_bytes()) % u64::from(self.0.get());
        Shard(u16::try_from(index).expect("less than a u16"))
    }
}

impl Shard {
    /// Returns the shard index, starting from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<u16> for Shards {
    type Error = ShardsError;

    fn try_from(count: u16) -> Result<Self, ShardsError> {
        NonZeroU16::new(count)
            .filter(|count| count.get() <= Self::MAX_SHARDS)
            .map(Self)
            .ok_or(ShardsError(count))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ShardsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the number of shards must be between 1 and 1024, not {}", self.0)
    }
}

impl std::error::Error for ShardsError {}

crate::log::debug::debug_in_full!(ShardsError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_of_a_name_never_changes() {
        let shards = Shards::try_from(16).expect("a good number");
        let indices = ["hits", "(other)", "/articles/{id}", ""].map(|name| shards.of(name).index());
        assert_eq!(indices, [2, 13, 0, 2]);
        assert!(Shards::ONE.iter().eq([Shards::ONE.of("hits")]));
    }

    #[test]
    fn all_values_of_a_label_share_a_shard() {
        let shards = Shards::try_from(16).expect("a good number");
        let of = |name| shards.of(name).index();
        let values = ["label:referrer:example.com", "label:referrer:(other)", "label:referrer:a:b"];
        assert_eq!(values.map(of), [of("label:referrer"); 3]);
        assert_ne!(of("label:referrer:a"), of("label:device:a"));
    }

    #[test]
    fn names_are_distributed_evenly_over_shards() {
        let shards = Shards::try_from(16).expect("a good number");
        let mut counts = [0_u32; 16];
        for n in 0..16_000 {
            counts[shards.of(&format!("/page/{n}")).index()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
