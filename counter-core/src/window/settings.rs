use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::dimensions::Dimensions;
use super::interval::Window;
use super::store::WindowKey;
use crate::time::Timestamp;

/// Number of parts of a sliding window, if the width is a multiple.
const PARTS: u32 = 10;

/// Settings to derive the key of a window.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) window: Window,
    pub(super) keep: u8,
    pub(super) group: Option<Cow<'static, str>>,
    pub(super) sliding: Option<Sliding>,
}

/// The sliding window that a window is a part of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sliding {
    width: u32,
    /// True if the parts of a counter need to be placed on the same shard.
    is_sharded: bool,
}

impl Settings {
    /// Returns the settings for the parts of a sliding window with the same width. The current part and the
    /// retained parts cover at least the width, at any time in the current part.
    pub(super) fn sliding(&self, is_sharded: bool) -> Self {
        let width = self.window.as_seconds();
        let part = width.div_ceil(PARTS);
        Self {
            window: Window::new(NonZeroU32::new(part).expect("the width is not 0")),
            keep: u8::try_from(width.div_ceil(part)).expect("at most 10"),
            group: self.group.clone(),
            sliding: Some(Sliding { width, is_sharded }),
        }
    }

    /// Returns the position of a part of a sliding window in its block. A block has the width of the window,
    /// rounded up to parts.
    pub(super) fn index(&self, start: Timestamp) -> u32 {
        let index = start.as_unix() / u64::from(self.window.as_seconds()) % u64::from(self.keep);
        u32::try_from(index).expect("less than `keep`")
    }

    /// Returns the key of the window that contains `at`. It is open for counting while the window is
    /// retained, and for the same duration before the window.
    pub(super) fn at(&self, dimensions: &Dimensions, at: Timestamp) -> WindowKey {
        let group = self.group.as_deref().and_then(|name| dimensions.group(name));
        let width = self.window.as_seconds();
        let span = self.window.span(at);
        let retained = u64::from(width) * u64::from(self.keep);
        let expiry = span.end.plus(retained);
        let (group, counter) = match self.sliding {
            None => (group, dimensions.key(width, span.start)),
            Some(sliding) => {
                let before = u64::from(self.index(span.start)) * u64::from(width);
                // The counter text differs between blocks if there is a visitor.
                let all = || sliding.is_sharded.then(|| dimensions.placement());
                let counter = dimensions.sliding_key(sliding.width, width, span.start.minus(before));
                (group.or_else(all), counter)
            }
        };
        WindowKey {
            counter: counter.into(),
            group: group.map(Arc::from),
            width,
            start: span.start,
            expiry,
            open: span.start.minus(retained)..expiry,
        }
    }

    /// Returns the key of the window that should be current. It is only open for counting during this window.
    pub(super) fn now(&self, dimensions: &Dimensions, now: Timestamp) -> WindowKey {
        WindowKey { open: self.window.span(now), ..self.at(dimensions, now) }
    }

    /// Returns the keys of all retained windows in ascending order.
    pub(super) fn keys(&self, dimensions: &Dimensions, now: Timestamp) -> Vec<WindowKey> {
        let width = u64::from(self.window.as_seconds());
        let current = self.window.span(now).start.as_unix();
        let earlier = |windows: u8| {
            let start = current.checked_sub(width * u64::from(windows))?;
            Some(self.at(dimensions, Timestamp::from_unix(start)))
        };
        (0..=self.keep).rev().filter_map(earlier).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;
    use crate::window::store::Acquired;

    proptest! {
        #[test]
        fn the_parts_of_a_sliding_window_cover_its_width_and_little_more(
            width in prop_oneof![1..200_u32, 1..=u32::MAX],
            at in 50_000_000_000..60_000_000_000_u64,
        ) {
            let window = Window::try_from(width).expect("not 0");
            let settings = Settings { window, keep: 7, group: None, sliding: None };
            let (parts, now) = (settings.sliding(false), Timestamp::from_unix(at));
            let keys = parts.keys(&Dimensions::new(), now);
            let current = parts.now(&Dimensions::new(), now);
            prop_assert!(current.open.contains(&now));
            prop_assert_eq!(keys.last().map(|key| key.start), Some(current.start));
            prop_assert!(keys.is_sorted_by(|one, next| one.start.plus(one.width.into()) == next.start));
            // The store clock can be anywhere in this second.
            let (covered, part) = (at - keys[0].start.as_unix(), u64::from(current.width));
            prop_assert!(covered >= width.into());
            prop_assert!(covered < u64::from(width) + 2 * part && part <= u64::from(width).div_ceil(10));
            if width % 10 == 0 {
                prop_assert_eq!((keys.len(), part), (11, u64::from(width / 10)));
            }
            // Parts with the same index are in different blocks.
            let index = |key: &WindowKey| parts.index(key.start);
            let indices: Vec<_> = keys.iter().map(index).collect();
            prop_assert_eq!(indices.first(), indices.last());
            prop_assert!(indices.windows(2).all(|pair| pair[1] == (pair[0] + 1) % u32::from(parts.keep)));
            // Counts remain in the store while they are used.
            prop_assert!(keys.iter().all(|key| key.expiry >= current.open.end));
        }

        #[test]
        fn no_interval_allows_more_than_the_limit_and_a_greedy_client_gets_most_of_it(
            width in 1..100_u32,
            limit in 1..10_u64,
            pauses in proptest::collection::vec(prop_oneof![Just(0_u64), 0..5_u64, 0..200_u64], 1..100),
        ) {
            let (mut client, mut now) = (Client::new(width, limit), START);
            for pause in pauses {
                now += pause;
                client.acquire(now);
            }
            for (index, first) in client.allowed.iter().enumerate() {
                // The calls can be at any time in a second.
                let within = client.allowed[index..].iter().filter(|at| **at - first <= width.into());
                prop_assert!(within.count() as u64 <= limit);
            }
            let (mut client, mut now) = (Client::new(width, limit), START);
            while now < START + 20 * u64::from(width) {
                if let Some(reset) = client.acquire(now) {
                    prop_assert!(client.acquire(reset - 1).is_some());
                    prop_assert_eq!(client.acquire(reset), None);
                    now = reset;
                }
            }
            let percent = match width {
                1 => 50,
                2 => 66,
                _ if width % 10 == 0 => 90,
                _ => 75,
            };
            prop_assert!(client.allowed.len() as u64 * 100 >= 20 * limit * percent);
        }
    }

    const START: u64 = 1_000_000;

    /// A client of a store with a clock that we can set.
    struct Client {
        settings: Settings,
        limit: u64,
        counts: HashMap<Timestamp, u64>,
        allowed: Vec<u64>,
    }

    impl Client {
        fn new(width: u32, limit: u64) -> Self {
            let window = Window::try_from(width).expect("not 0");
            let settings = Settings { window, keep: 1, group: None, sliding: None };
            let settings = settings.sliding(false);
            Self { settings, limit, counts: HashMap::new(), allowed: Vec::new() }
        }

        /// Returns the reported time if the call is not allowed.
        fn acquire(&mut self, now: u64) -> Option<u64> {
            let at = Timestamp::from_unix(now);
            let count = |key: &WindowKey| self.counts.get(&key.start).copied().unwrap_or(0);
            let mut keys = self.settings.keys(&Dimensions::new(), at);
            let current = keys.pop().expect("the current part");
            let earlier: Vec<_> = keys.iter().map(count).collect();
            match Acquired::check(&earlier, count(&current), 1, self.limit, at) {
                Ok(_) => {
                    *self.counts.entry(current.start).or_default() += 1;
                    self.allowed.push(now);
                    None
                }
                Err(Acquired { fits_after, .. }) => {
                    let windows = u64::from(fits_after) * u64::from(current.width);
                    Some(current.start.as_unix() + windows)
                }
            }
        }
    }

    #[test]
    fn the_parts_of_different_sliding_windows_have_separate_keys_in_the_same_place() {
        let ann = crate::visitor::VisitorKey::new([1; 16]).visitor(&[b"ann"]);
        let dimensions = Dimensions::new().text("app", "shop").visitor("a", ann);
        let counter = |width: u32, sliding: bool| {
            let window = Window::try_from(width).expect("not 0");
            let settings = Settings { window, keep: 1, group: None, sliding: None };
            let settings = if sliding { settings.sliding(true) } else { settings };
            settings.keys(&dimensions, Timestamp::from_unix(1_000_000))
        };
        // All parts are a second wide.
        let (nine, ten, fixed) = (counter(9, true), counter(10, true), counter(1, false));
        let names: HashSet<_> =
            [&nine, &ten, &fixed].into_iter().flatten().map(|key| (&key.counter, key.start)).collect();
        assert_eq!(names.len(), 10 + 11 + 2);
        assert!(nine.iter().chain(&ten).all(|key| key.shard_key() == nine[0].shard_key()));
    }
}
