//! A store that can only be used by limits.

use std::fmt;
use std::future::pending;

use counter_core::stores::{BoxFuture, StoreFuture};
use counter_core::window::WindowStore;
use counter_core::window::store::{Acquired, Addition, Earlier, WindowKey};
use counter_core::{Error, VisitorId};

/// A store with `add_within` implemented by a closure. Limits don't use other operations.
#[derive(Clone)]
pub(super) struct Acquiring<F> {
    pub(super) is_immediate: bool,
    pub(super) add_within: F,
}

/// Creates a store that never responds.
pub(super) fn unresponsive() -> impl WindowStore + Clone {
    Acquiring {
        is_immediate: false,
        add_within: |_: &Addition, _| -> StoreFuture<'static, _> { Box::pin(pending()) },
    }
}

impl<F> WindowStore for Acquiring<F>
where
    F: Fn(&Addition, u64) -> StoreFuture<'static, Acquired> + Send + Sync + 'static,
{
    fn add<'a>(&'a self, _: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        unreachable!("a limit adds within a limit")
    }

    fn add_once<'a>(&'a self, _: &'a WindowKey, _: VisitorId) -> StoreFuture<'a, (bool, u64)> {
        unreachable!("a limit adds within a limit")
    }

    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        _: Earlier<'a>,
        limit: u64,
    ) -> StoreFuture<'a, Acquired> {
        (self.add_within)(addition, limit)
    }

    fn counts<'a>(&'a self, _: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>> {
        unreachable!("a limit adds within a limit")
    }

    fn is_immediate(&self) -> bool {
        self.is_immediate
    }
}

impl<F> fmt::Debug for Acquiring<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acquiring")
    }
}
