//! Compares the values of a counter in both stores.

use std::ops::Range;

use crate::time::Timestamp;
use crate::visits::store::{Extent, Reading, Value};

/// The result of comparing the values of a counter in the near store and the far store.
#[derive(Debug)]
pub(super) struct Found {
    /// Number of values in at least one of the stores.
    pub(super) compared: u64,
    pub(super) unreadable: u64,
    /// Values that differ, by bucket start, as pairs of the near and the far value.
    pub(super) different: Vec<(Timestamp, [Value; 2])>,
}

impl Found {
    pub(super) fn of(near: Reading, far: Reading, range: &Range<Timestamp>) -> Self {
        let unreadable = [&near, &far].into_iter().filter_map(|reading| reading.unreadable.as_ref());
        let extents: Vec<_> = unreadable.map(|unreadable| unreadable.extent.clone()).collect();
        let mut found = Self {
            compared: 0,
            unreadable: extents.iter().map(Extent::entries).sum(),
            different: Vec::new(),
        };
        let is_compared =
            |start: Timestamp| range.contains(&start) && !extents.iter().any(|extent| extent.includes(start));
        let (mut near, mut far) = (near.values.into_iter().peekable(), far.values.into_iter().peekable());
        while let Some(start) = near.peek().into_iter().chain(far.peek()).map(|(start, _)| *start).min() {
            let near = near.next_if(|(at, _)| *at == start).map(|(_, value)| value);
            let far = far.next_if(|(at, _)| *at == start).map(|(_, value)| value);
            let both = match (near, far) {
                (Some(near), Some(far)) => [near, far],
                (Some(near), None) => {
                    let far = Value::empty(near.kind());
                    [near, far]
                }
                (None, Some(far)) => [Value::empty(far.kind()), far],
                (None, None) => continue,
            };
            if is_compared(start) {
                found.compared += 1;
                if both[0] != both[1] {
                    found.different.push((start, both));
                }
            }
        }
        found
    }
}
