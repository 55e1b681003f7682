//! `Debug` of errors as people read them: `fn main() -> Result<(), Box<dyn Error>>` prints nothing else.

use std::error::Error;
use std::fmt;

/// Writes the message of an error and those of its sources, in one line.
pub fn in_full(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    let mut source = error.source();
    while let Some(error) = source {
        write!(f, ": {error}")?;
        source = error.source();
    }
    Ok(())
}

/// Implements `Debug` for errors: their messages, and those of their sources.
macro_rules! debug_in_full {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::debug::in_full(self, f)
            }
        })+
    };
}
pub(crate) use debug_in_full;
