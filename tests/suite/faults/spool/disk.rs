//! Disks that fail, and files that are not what was written.

use counter_core::{Error, ErrorKind};

use crate::through::Hand;

/// A store that is away.
#[derive(Clone, Debug, Default)]
pub(super) struct Away;

impl Hand for Away {
    fn pass(&self) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unavailable))
    }
}
