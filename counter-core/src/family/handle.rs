/// Implements a family trait for store handles, by passing calls through to the part of the store that
/// implements the family. Stores expose this part via `AsRef`. `Read of Store` implements `Read` for types
/// that expose a `Store`.
macro_rules! for_handles {
    ($family:ident { $($methods:tt)* }) => {
        $crate::family::handle::for_handles!($family of $family { $($methods)* });
    };
    ($family:ident of $part:ident { $(fn $name:ident($($argument:ident: $type:ty),*) -> $reply:ty;)* }) => {
        /// Forwards to the part of the store.
        #[allow(clippy::needless_lifetimes, reason = "some calls borrow nothing")]
        impl<T: AsRef<dyn $part> + fmt::Debug + Send + Sync + 'static> $family for T {
            $(fn $name<'a>(&'a self, $($argument: $type),*) -> $reply {
                self.as_ref().$name($($argument),*)
            })*
        }
    };
}

pub(crate) use for_handles;
