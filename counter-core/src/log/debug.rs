//! Readable `Debug` implementations for errors, because `fn main() -> Result<(), Box<dyn Error>>` prints
//! errors using `Debug`.

use std::error::Error;
use std::fmt;

/// Writes the message of an error and of all its [sources](Error::source) in a single line. Used to implement
/// `Debug`.
pub fn in_full(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    let mut source = error.source();
    while let Some(error) = source {
        write!(f, ": {error}")?;
        source = error.source();
    }
    Ok(())
}

/// Implements `Debug` for error types by calling `in_full`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_in_full {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::internal::in_full(self, f)
            }
        })+
    };
}
pub use debug_in_full;

#[cfg(test)]
mod tests {
    use crate::error::{Error, ErrorKind};

    #[test]
    fn debug_output_of_an_error_includes_the_sources() {
        let inner = Error::new(ErrorKind::Rejected).caused_by("the disk is full");
        let error: Box<dyn std::error::Error> = Error::new(ErrorKind::Panicked).caused_by(inner).into();
        assert_eq!(format!("{error:?}"), "a call panicked: the store rejected the request: the disk is full");
    }
}
