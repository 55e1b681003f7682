/// Implements the trait of a family for handles on stores, which forward each call to the part that keeps the family: a
/// store shows this part by `AsRef`. `Read of Store` implements `Read` for what shows a `Store`.
macro_rules! for_handles {
    ($family:ident { $($methods:tt)* }) => {
        $crate::family::handle::for_handles!($family of $family { $($methods)* });
    };
    ($family:ident of $shown:ident { $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }) => {
        /// Forwards to the part of the store.
        #[allow(clippy::needless_lifetimes, reason = "some calls borrow nothing")]
        impl<T: AsRef<dyn $shown> + fmt::Debug + Send + Sync + 'static> $family for T {
            $(fn $name<'a>(&'a self, $($argument: $type),*) -> $answer {
                self.as_ref().$name($($argument),*)
            })*
        }
    };
}

pub(crate) use for_handles;
