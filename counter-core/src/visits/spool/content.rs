//! Encodes cells for the spool file.
//!
//! To save space, a row contains a counter name only once, start times relative to the earliest, and
//! precisions as indices into the grid. The grid is also stored in the file, so that the hits will be sent
//! with the original buckets if the process ends.

use std::collections::HashMap;
use std::num::NonZeroU32;

use crate::family::name::CounterName;
use crate::sketch::{Register, Sketch, hash};
use crate::time::{Grid, Precision, Precisions, Retention, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::store::{Cell, Value};

/// The encoded content of a row: names; the earliest start; cells as (name, start, finest precision, count);
/// sketches as (name, start, finest precision, registers), with delta-encoded register indices.
type EncodedRow<'a> = (Vec<&'a str>, u64, Vec<(u32, u64, u8, u64)>, Vec<(u32, u64, u8, Vec<(u16, u8)>)>);

/// The encoded bins of a row, which follow the content if the grid has distributions: cells as (name, start,
/// finest precision, bins with counts).
type EncodedBins = Vec<(u32, u64, u8, Vec<(u16, u64)>)>;

/// An encoded retention: width, offset, and number of samples.
type EncodedRetention = (u32, u32, u32);

const INFALLIBLE_WRITE: &str = "writing to a vector cannot fail";

/// Encodes cells with precisions from the grid.
pub(super) fn encode(cells: &[Cell], grid: &Grid) -> Vec<u8> {
    let first = cells.iter().map(|cell| cell.start).min().map_or(0, Timestamp::as_unix);
    let (mut names, mut known) = (Vec::new(), HashMap::new());
    let (mut counts, mut sketches, mut distributions) = (Vec::new(), Vec::new(), EncodedBins::new());
    for cell in cells {
        let name = *known.entry(&*cell.counter).or_insert_with(|| {
            names.push(&*cell.counter);
            u32::try_from(names.len() - 1).expect("at most a million names per process")
        });
        let after = cell.start.as_unix() - first;
        let place = grid.precisions(cell.value.kind()).map_or(0, |set| place(set, cell.finest));
        match &cell.value {
            Value::Count(count) => counts.push((name, after, place, *count)),
            Value::Visitors(raised) => {
                let mut last = 0;
                let step = |Register { index, rank }| (index - std::mem::replace(&mut last, index), rank);
                sketches.push((name, after, place, raised.registers().map(step).collect()));
            }
            Value::Distribution(bins) => {
                let bins = bins.iter().map(|(bin, count)| (bin.number(), *count)).collect();
                distributions.push((name, after, place, bins));
            }
        }
    }
    let content: EncodedRow<'_> = (names, first, counts, sketches);
    let bytes = postcard::to_allocvec(&content).expect(INFALLIBLE_WRITE);
    match grid.distributions {
        Some(_) => postcard::to_extend(&distributions, bytes).expect(INFALLIBLE_WRITE),
        None => bytes,
    }
}

/// Decodes the output of [`encode`], ordered by kind; `None` if the bytes are invalid.
pub(super) fn decode(bytes: &[u8], grid: &Grid) -> Option<Vec<Cell>> {
    let (content, rest) = postcard::take_from_bytes::<EncodedRow<'_>>(bytes).ok()?;
    let (names, first, counts, sketches) = content;
    let distributions: EncodedBins = match &grid.distributions {
        Some(_) => postcard::from_bytes(rest).ok()?,
        None => Vec::new(),
    };
    let names: Vec<_> = names.into_iter().map(|name| CounterName::new(name).ok()).collect::<Option<_>>()?;
    let mut cells = Vec::with_capacity(counts.len() + sketches.len() + distributions.len());
    let mut push = |(number, after, finest): (u32, u64, Precision), value| {
        let counter = names.get(number as usize)?.clone();
        let start = Timestamp::from_unix(first.checked_add(after)?);
        cells.push(Cell { counter, start, finest, value });
        Some(())
    };
    for (number, after, place, count) in counts {
        let place = usize::from(place);
        // The index just past the end means that the count is expired.
        let finest = (place <= grid.counts.iter().len()).then(|| grid.counts.precision(place))?;
        push((number, after, finest), Value::Count(count))?;
    }
    let finest = |set: &Precisions, place: u8| Some(set.iter().nth(place.into())?.precision);
    for (number, after, place, registers) in sketches {
        let (mut raised, mut index) = (Sketch::new(), 0_u16);
        for (step, rank) in registers {
            index = index.checked_add(step)?;
            raised.raise(Register::new(index, rank)?);
        }
        push((number, after, finest(&grid.visitors, place)?), Value::Visitors(raised))?;
    }
    for (number, after, place, bins) in distributions {
        let bins = bins.into_iter().map(|(bin, count)| Some((Bin::of_number(bin)?, count)));
        let value = Value::Distribution(bins.collect::<Option<_>>()?);
        push((number, after, finest(grid.distributions.as_ref()?, place)?), value)?;
    }
    Some(cells)
}

/// Encodes a grid.
pub(super) fn encode_grid(grid: &Grid) -> Vec<u8> {
    let retained = |set: &Precisions| -> Vec<EncodedRetention> {
        let retained = |retention: Retention| {
            (retention.precision.as_seconds(), retention.precision.offset(), retention.samples.get())
        };
        set.iter().map(retained).collect()
    };
    let bytes =
        postcard::to_allocvec(&(retained(&grid.counts), retained(&grid.visitors))).expect(INFALLIBLE_WRITE);
    match &grid.distributions {
        Some(set) => postcard::to_extend(&retained(set), bytes).expect(INFALLIBLE_WRITE),
        None => bytes,
    }
}

/// Decodes the output of [`encode_grid`]; `None` if the bytes are invalid.
pub(super) fn decode_grid(bytes: &[u8]) -> Option<Grid> {
    let ((counts, visitors), rest) =
        postcard::take_from_bytes::<(Vec<EncodedRetention>, Vec<EncodedRetention>)>(bytes).ok()?;
    let set = |retained: Vec<EncodedRetention>| {
        let retention = |(width, offset, samples)| {
            let precision = Precision::new(NonZeroU32::new(width)?);
            let precision = precision.starting_at(Timestamp::from_unix(u64::from(offset)));
            Some(Retention { precision, samples: NonZeroU32::new(samples)? })
        };
        Precisions::new(retained.into_iter().map(retention).collect::<Option<Vec<_>>>()?).ok()
    };
    let distributions = match rest {
        [] => None,
        rest => Some(set(postcard::from_bytes(rest).ok()?)?),
    };
    Some(Grid { counts: set(counts)?, visitors: set(visitors)?, distributions })
}

/// Returns a checksum of the content and its key. We need this because SQLite can't detect if a disk returns
/// different bytes than those written.
pub(super) fn checksum(shard: i64, sequence: i64, content: &[u8]) -> i64 {
    let place = [shard.to_le_bytes(), sequence.to_le_bytes()].concat();
    hash(&place).rotate_left(32).wrapping_add(hash(content)).cast_signed()
}

fn place(set: &Precisions, precision: Precision) -> u8 {
    u8::try_from(set.place(precision).unwrap_or_default()).expect("a set has 16 precisions at most")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid() -> Grid {
        let offset = Precisions::default().utc_offset(19_800);
        Grid { counts: offset, distributions: Some(Precisions::default()), ..Grid::default() }
    }

    fn counts() -> impl Strategy<Value = Vec<Cell>> {
        let cell = ("[a-z/{}]{1,12}", 0_u64..4_000_000_000, 0_usize..=7, any::<u64>());
        let cell = cell.prop_map(|(name, start, finest, count)| Cell {
            counter: CounterName::new(&name).expect("a name"),
            start: Timestamp::from_unix(start),
            finest: grid().counts.precision(finest),
            value: Value::Count(count),
        });
        prop::collection::vec(cell, 0..50)
    }

    fn visitors() -> impl Strategy<Value = Vec<Cell>> {
        let visitors = prop::collection::vec(any::<u64>(), 0..400);
        let cell = ("[a-z]{1,3}", 0_u64..4_000_000_000, 0_usize..2, visitors);
        let cell = cell.prop_map(|(name, start, finest, visitors)| Cell {
            counter: CounterName::new(&name).expect("a name"),
            start: Timestamp::from_unix(start),
            finest: grid().visitors.precision(finest),
            value: Value::Visitors(
                visitors.iter().map(|visitor| Register::of(&visitor.to_le_bytes())).collect(),
            ),
        });
        prop::collection::vec(cell, 0..5)
    }

    fn distributions() -> impl Strategy<Value = Vec<Cell>> {
        let bins = prop::collection::btree_map((0..1000_u16).prop_map(Bin::status), any::<u64>(), 0..20);
        let cell = ("[a-z]{1,3}", 0_u64..4_000_000_000, 0_usize..7, bins);
        let cell = cell.prop_map(|(name, start, finest, bins)| Cell {
            counter: CounterName::new(&name).expect("a name"),
            start: Timestamp::from_unix(start),
            finest: Precisions::default().precision(finest),
            value: Value::Distribution(bins.into_iter().collect()),
        });
        prop::collection::vec(cell, 0..5)
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(
            counts in counts(),
            visitors in visitors(),
            distributions in distributions(),
        ) {
            let cells = [counts, visitors, distributions].concat();
            prop_assert_eq!(decode(&encode(&cells, &grid()), &grid()), Some(cells));
        }

        #[test]
        fn rows_without_distributions_keep_the_old_format(counts in counts(), visitors in visitors()) {
            let (cells, without) = ([counts, visitors].concat(), Grid { distributions: None, ..grid() });
            let bytes = encode(&cells, &without);
            prop_assert_eq!(&bytes[..], &encode(&cells, &grid())[..bytes.len()]);
            prop_assert_eq!(decode(&bytes, &without), Some(cells));
            prop_assert_eq!(decode(&bytes, &grid()), None);
        }

        #[test]
        fn arbitrary_bytes_decode_to_valid_content_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(decode_grid(&bytes));
            if let Some(cells) = decode(&bytes, &grid()) {
                let again = encode(&cells, &grid());
                prop_assert_eq!(decode(&again, &grid()), Some(cells));
            }
        }

        #[test]
        fn changed_and_moved_rows_change_the_checksum(
            bytes in prop::collection::vec(any::<u8>(), 1..100),
            at: prop::sample::Index,
            bit in 0_u8..8,
        ) {
            let sum = checksum(3, 7, &bytes);
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= 1 << bit;
            prop_assert_ne!(checksum(3, 7, &changed), sum);
            prop_assert_ne!(checksum(3, 8, &bytes), sum);
            prop_assert_ne!(checksum(4, 7, &bytes), sum);
        }
    }

    #[test]
    fn grids_are_decoded_with_offsets_and_retention() {
        assert_eq!(decode_grid(&encode_grid(&grid())), Some(grid()));
        let without = Grid { distributions: None, ..grid() };
        assert_eq!(decode_grid(&encode_grid(&without)), Some(without));
        assert_eq!(decode_grid(&[]), None);
        assert_eq!(
            decode_grid(
                &postcard::to_allocvec(&(vec![(0_u32, 0_u32, 1_u32)], vec![(1_u32, 0_u32, 1_u32)]))
                    .expect("bytes")
            ),
            None
        );
    }
}
