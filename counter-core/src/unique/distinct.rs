use std::collections::HashSet;

use crate::sketch::{STANDARD_ERROR, Sketch};
use crate::visitor::VisitorId;

/// A number of distinct items, either exact or estimated.
///
/// ```
/// use counter_core::unique::Distinct;
///
/// let (known, about) = (Distinct::Exact(7), Distinct::Estimated { items: 2000, standard_error: 16.25 });
/// assert_eq!((known.items(), about.items()), (7, 2000));
/// assert!(known.is_exact() && !about.is_exact());
/// assert_eq!(known.standard_error(), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Distinct {
    /// An exact number.
    Exact(u64),
    /// An estimate.
    Estimated {
        /// Estimated number of items.
        items: u64,
        /// Standard error in items: 68 % of the estimates are closer than this, and 95 % are closer than two
        /// standard errors.
        standard_error: f64,
    },
}

/// Counter contents: either items or HyperLogLog registers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contents {
    /// All items.
    Items(HashSet<Vec<u8>>),
    /// HyperLogLog registers.
    Registers(Sketch),
}

impl Distinct {
    /// Returns the exact or estimated number.
    #[must_use]
    pub const fn items(self) -> u64 {
        match self {
            Self::Exact(items) | Self::Estimated { items, .. } => items,
        }
    }

    /// Returns the standard error in items, or 0 if the number is exact.
    #[must_use]
    pub const fn standard_error(self) -> f64 {
        match self {
            Self::Exact(_) => 0.0,
            Self::Estimated { standard_error, .. } => standard_error,
        }
    }

    /// Returns `true` if the number is exact.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// Creates a HyperLogLog estimate.
    pub(crate) const fn estimated(items: u64) -> Self {
        Self::Estimated { items, standard_error: STANDARD_ERROR * items as f64 }
    }
}

impl Contents {
    /// Returns the number of distinct items.
    #[must_use]
    pub fn count(&self) -> Distinct {
        match self {
            Self::Items(items) => Distinct::Exact(items.len() as u64),
            Self::Registers(sketch) => Distinct::estimated(sketch.estimate()),
        }
    }

    /// Returns the union: items if both sides have items, registers otherwise.
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

/// Returns the number of items in the intersection. Sets are compared item by item; if there are any
/// registers, we use inclusion and exclusion.
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
        // An intersection with an empty set is empty, and we don't need registers if all contents are sets.
        Some(common) if common.is_empty() || sketches.is_empty() => Distinct::Exact(common.len() as u64),
        Some(common) => {
            sketches.push((Distinct::Exact(common.len() as u64), sketch_of(&common)));
            inclusion_exclusion(&sketches)
        }
        None => inclusion_exclusion(&sketches),
    }
}

/// Computes |A| + |B| − |A ∪ B|, generalized to more sets: unions of an odd number of sets are added, unions
/// of an even number are subtracted.
///
/// The errors of these terms are correlated, because each item always raises the same register. For two
/// unions S and T, the correlation is |S ∩ T| / |S ∪ T|. If we treat them as independent, the resulting error
/// is up to five times too large.
fn inclusion_exclusion(all: &[(Distinct, Sketch)]) -> Distinct {
    // Unions, indexed by a bit set of counters.
    let mut unions = vec![Sketch::new()];
    for (_, sketch) in all {
        for choice in 0..unions.len() {
            let mut union = unions[choice].clone();
            union.merge(sketch);
            unions.push(union);
        }
    }
    let mut counts: Vec<_> = unions.iter().map(|union| Distinct::estimated(union.estimate())).collect();
    for (n, (single, _)) in all.iter().enumerate() {
        counts[1 << n] = *single;
    }
    let items = |choice: usize| counts[choice].items() as f64;
    let sign = |choice: usize| if choice.count_ones() % 2 == 1 { 1.0 } else { -1.0 };
    let (mut sum, mut variance) = (0.0, 0.0);
    for one in 1..counts.len() {
        sum += sign(one) * items(one);
        for other in 1..counts.len() {
            let both = items(one | other).max(1.0);
            let overlap = (items(one) + items(other) - both).max(0.0) / both;
            let errors = counts[one].standard_error() * counts[other].standard_error();
            variance += sign(one) * sign(other) * errors * overlap;
        }
    }
    let max = all.iter().map(|(single, _)| single.items()).min().unwrap_or_default();
    Distinct::Estimated { items: rounded(sum).min(max), standard_error: f64::sqrt(variance.max(0.0)) }
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, including at 0")]
fn rounded(sum: f64) -> u64 {
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
        Contents::Items(numbers.map(|n| n.to_le_bytes().to_vec()).collect())
    }

    fn registers(numbers: Range<u32>) -> Contents {
        let mut sketch = Sketch::new();
        for n in numbers {
            sketch.insert_element(&n.to_le_bytes());
        }
        Contents::Registers(sketch)
    }

    #[test]
    fn unions_are_exact_without_registers() {
        assert_eq!(items(0..10).union(items(5..15)).count(), Distinct::Exact(15));
        assert_eq!(items(0..10).union(Contents::default()), items(0..10));
        let mixed = items(0..1000).union(registers(500..1500));
        assert_eq!(mixed, registers(0..1500));
        assert_eq!(registers(500..1500).union(items(0..1000)), mixed);
    }

    #[test]
    fn intersections_of_sets_are_exact() {
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

    /// Number of rounds out of 60 in which the estimate is within one standard error, and within two.
    fn within(sizes: [u32; 2], common: u32) -> (u32, u32) {
        let (mut once, mut twice) = (0, 0);
        for round in 0..60 {
            let (first, [a, b]) = (round * 1_000_000, sizes);
            let second = first + a - common;
            let Distinct::Estimated { items, standard_error } =
                intersection(vec![registers(first..first + a), registers(second..second + b)])
            else {
                panic!("registers are an estimate");
            };
            let off = (items as f64 - f64::from(common)).abs();
            once += u32::from(off <= standard_error);
            twice += u32::from(off <= 2.0 * standard_error);
        }
        (once, twice)
    }

    #[test]
    fn intersection_estimates_match_the_standard_error() {
        // The items are the same on every run, so this test is deterministic. We expect 41 of 60 and 57 of
        // 60.
        for (sizes, common) in [([10_000, 10_000], 3500), ([10_000, 10_000], 9000), ([10_000, 1000], 500)] {
            let (once, twice) = within(sizes, common);
            assert!((35..=56).contains(&once) && twice >= 55, "{sizes:?} {common}: {once} and {twice}");
        }
    }

    #[test]
    fn intersections_of_up_to_five_sketches_are_estimated() {
        let all = |n: u32| (0..n).map(|k| registers(k * 1000..k * 1000 + 10_000)).collect::<Vec<_>>();
        for n in 1..=5 {
            let (estimate, common) = (intersection(all(n)), u64::from(11 - n) * 1000);
            let off = (estimate.items() as f64 - common as f64).abs();
            assert!(off > 0.0 && off <= 2.0 * estimate.standard_error(), "{n}: {estimate:?}, not {common}");
        }
        let none = intersection(vec![registers(0..1000), registers(5000..6000)]);
        assert!(none.items() as f64 <= 2.0 * none.standard_error(), "{none:?}");
        let few = intersection(vec![items(0..5), registers(0..100_000)]);
        assert!(few.items() <= 5, "{few:?}");
    }
}
