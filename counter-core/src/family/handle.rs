/// Implements the trait of a family for handles on stores, which pass each call on to the part that keeps the
/// family: a store shows it by `AsRef`.
macro_rules! for_handles {
    ($family:ident { $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }) => {
        /// Implements it for handles on a store that has a part for it.
        #[allow(clippy::needless_lifetimes, reason = "some calls borrow nothing")]
        impl<T: AsRef<dyn $family> + fmt::Debug + Send + Sync + 'static> $family for T {
            $(fn $name<'a>(&'a self, $($argument: $type),*) -> $answer {
                self.as_ref().$name($($argument),*)
            })*
        }
    };
}

pub(crate) use for_handles;
