use std::borrow::Cow;
use std::sync::Arc;

use super::dimensions::Dimensions;
use super::interval::Window;
use super::store::WindowKey;
use crate::time::Timestamp;

/// Settings to derive the key of a window.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) window: Window,
    pub(super) keep: u8,
    pub(super) group: Option<Cow<'static, str>>,
}

impl Settings {
    /// Returns the key of the window that contains `at`. It is open for counting while the window is
    /// retained, and for the same duration before the window.
    pub(super) fn at(&self, dimensions: &Dimensions, at: Timestamp) -> WindowKey {
        let group = self.group.as_deref().and_then(|name| dimensions.group(name)).map(Arc::from);
        let width = self.window.as_seconds();
        let span = self.window.span(at);
        let retained = u64::from(width) * u64::from(self.keep);
        let expiry = span.end.plus(retained);
        let counter = dimensions.key(width, span.start).into();
        WindowKey {
            counter,
            group,
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
