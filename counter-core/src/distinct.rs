use std::collections::HashSet;

use crate::sketch::STANDARD_ERROR;
use crate::{Sketch, VisitorId};

/// How many different items there are.
///
/// ```
/// use counter_core::Distinct;
///
/// let (known, about) = (Distinct::Exact(7), Distinct::Estimated { items: 2000, standard_error: 16.25 });
/// assert_eq!((known.items(), about.items()), (7, 2000));
/// assert!(known.is_exact() && !about.is_exact());
/// assert_eq!(known.standard_error(), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distinct {
    /// As many as this.
    Exact(u64),
    /// About as many as this.
    Estimated {
        /// The estimate.
        items: u64,
        /// Its standard error, in items: two estimates in three are closer than this, 19 in 20 than twice
        /// this.
        standard_error: f64,
    },
}

/// What a counter has of its items: themselves, or the registers that they left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Every item.
    Items(HashSet<Vec<u8>>),
    /// The registers of a HyperLogLog.
    Registers(Sketch),
}

impl Distinct {
    /// The number, or its estimate.
    #[must_use]
    pub const fn items(self) -> u64 {
        match self {
            Self::Exact(items) | Self::Estimated { items, .. } => items,
        }
    }

    /// The standard error in items; 0 of an exact number.
    #[must_use]
    pub const fn standard_error(self) -> f64 {
        match self {
            Self::Exact(_) => 0.0,
            Self::Estimated { standard_error, .. } => standard_error,
        }
    }

    /// Whether it is the number itself.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// What a HyperLogLog says.
    pub(crate) const fn estimated(items: u64) -> Self {
        Self::Estimated { items, standard_error: STANDARD_ERROR * items as f64 }
    }
}

impl Contents {
    /// How many different items there are.
    #[must_use]
    pub fn count(&self) -> Distinct {
        match self {
            Self::Items(items) => Distinct::Exact(items.len() as u64),
            Self::Registers(sketch) => Distinct::estimated(sketch.estimate()),
        }
    }

    /// The union of both: items as long as both are, else registers.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Items(mut items), Self::Items(others)) => {
                items.extend(others);
                Self::Items(items)
            }
            (one, other) => {
                let mut sketch = one.into_sketch();
                sketch.merge(&other.into_sketch());
                Self::Registers(sketch)
            }
        }
    }

    fn into_sketch(self) -> Sketch {
        match self {
            Self::Items(items) => sketch_of(&items),
            Self::Registers(sketch) => sketch,
        }
    }
}

impl Default for Contents {
    fn default() -> Self {
        Self::Items(HashSet::new())
    }
}

impl AsRef<[u8]> for VisitorId {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// How many items all of these have in common.
///
/// Sets are compared item by item. With registers among them it is |A| + |B| − |A ∪ B|, and so on for more
/// of them. The errors of the terms are added up as if they had nothing to do with one another. They do, for
/// they come from the same registers, so the sum is rather too large.
pub(crate) fn intersection(all: Vec<Contents>) -> Distinct {
    let mut common: Option<HashSet<Vec<u8>>> = None;
    let mut sketches = Vec::new();
    for contents in all {
        match contents {
            Contents::Items(items) => {
                common = Some(match common {
                    Some(mut common) => {
                        common.retain(|item| items.contains(item));
                        common
                    }
                    None => items,
                });
            }
            Contents::Registers(sketch) => sketches.push((Distinct::estimated(sketch.estimate()), sketch)),
        }
    }
    match common {
        // Nothing is in common with an empty set, and sets alone need no registers.
        Some(common) if common.is_empty() || sketches.is_empty() => Distinct::Exact(common.len() as u64),
        Some(common) => {
            sketches.push((Distinct::Exact(common.len() as u64), sketch_of(&common)));
            by_inclusion_and_exclusion(&sketches)
        }
        None => by_inclusion_and_exclusion(&sketches),
    }
}

fn by_inclusion_and_exclusion(all: &[(Distinct, Sketch)]) -> Distinct {
    let mut unions = vec![(Sketch::new(), 0_u32)];
    let (mut sum, mut variance) = (0.0, 0.0);
    for (alone, sketch) in all {
        for earlier in 0..unions.len() {
            let (union, members) = &unions[earlier];
            let mut union = union.clone();
            union.merge(sketch);
            let count = if *members == 0 { *alone } else { Distinct::estimated(union.estimate()) };
            let sign = if members.is_multiple_of(2) { 1.0 } else { -1.0 };
            let members = members + 1;
            sum += sign * count.items() as f64;
            variance += count.standard_error().powi(2);
            unions.push((union, members));
        }
    }
    let most = all.iter().map(|(alone, _)| alone.items()).min().unwrap_or_default();
    Distinct::Estimated { items: rounded(sum).min(most), standard_error: f64::sqrt(variance) }
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, at 0 as well")]
const fn rounded(sum: f64) -> u64 {
    sum.round() as u64
}

fn sketch_of(items: &HashSet<Vec<u8>>) -> Sketch {
    let mut sketch = Sketch::new();
    for item in items {
        sketch.insert_element(item);
    }
    sketch
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn items(numbers: Range<u32>) -> Contents {
        Contents::Items(numbers.map(|n| n.to_string().into_bytes()).collect())
    }

    fn registers(numbers: Range<u32>) -> Contents {
        Contents::Registers(items(numbers).into_sketch())
    }

    #[test]
    fn a_union_is_exact_until_registers_come_in() {
        assert_eq!(items(0..10).union(items(5..15)).count(), Distinct::Exact(15));
        assert_eq!(items(0..10).union(Contents::default()), items(0..10));
        let mixed = items(0..1000).union(registers(500..1500));
        assert_eq!(mixed, registers(0..1500));
        assert_eq!(registers(500..1500).union(items(0..1000)), mixed);
    }

    #[test]
    fn what_sets_have_in_common_is_exact() {
        for (all, common) in [
            (vec![items(0..10), items(5..15)], 5),
            (vec![items(0..10), items(5..15), items(7..8)], 1),
            (vec![items(0..10), items(10..15)], 0),
            (vec![items(0..10), registers(0..1000), items(20..30)], 0),
            (vec![items(3..5)], 2),
        ] {
            assert_eq!(intersection(all), Distinct::Exact(common));
        }
    }

    #[test]
    fn the_estimate_of_an_intersection_is_within_its_error_as_often_as_it_says() {
        let (mut once, mut twice, rounds) = (0, 0, 100);
        for round in 0..rounds {
            let first = round * 1_000_000;
            let (a, b) = (registers(first..first + 4000), registers(first + 2500..first + 7000));
            let Distinct::Estimated { items, standard_error } = intersection(vec![a, b]) else {
                panic!("registers are an estimate");
            };
            let off = (items as f64 - 1500.0).abs();
            once += u32::from(off <= standard_error);
            twice += u32::from(off <= 2.0 * standard_error);
        }
        // The same items in every run, and so the same numbers.
        assert!(once >= 68 && twice >= 95, "{once} and {twice} of {rounds}");
    }

    #[test]
    fn an_intersection_of_several_is_estimated_with_a_larger_error() {
        let all = |n: u32| (0..n).map(|k| registers(k * 1000..k * 1000 + 10_000)).collect::<Vec<_>>();
        let of = |n: u32| intersection(all(n));
        for n in 2..=5 {
            let (estimate, common) = (of(n), u64::from(11 - n) * 1000);
            let off = (estimate.items() as f64 - common as f64).abs();
            assert!(off <= 2.0 * estimate.standard_error(), "{n}: {estimate:?}, not {common}");
            assert!(estimate.standard_error() > of(n - 1).standard_error());
        }
        let none = intersection(vec![registers(0..1000), registers(5000..6000)]);
        assert!(none.items() <= 30, "{none:?}");
        let few = intersection(vec![items(0..5), registers(0..100_000)]);
        assert!(few.items() <= 5, "{few:?}");
    }
}
