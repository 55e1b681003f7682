//! The side of the archive to trust.

use counter_core::archive::Side;
use serde_json::json;

use super::{Description, Parameters, Values};
use crate::problem::Problem;

/// The store to trust. If this is set, the other store will be repaired.
#[derive(Debug)]
pub(crate) struct Right(pub(crate) Option<Side>);

impl<S> Parameters<S> for Right {
    fn describe() -> Vec<Description> {
        let text = "The store to trust: if set, the other store is repaired from it";
        vec![Description::new("right", text, |_| json!({"enum": ["near", "far"]}))]
    }

    fn read(values: &Values<'_>, _: &S) -> Result<Self, Problem> {
        match values.one("right")? {
            None => Ok(Self(None)),
            Some("near") => Ok(Self(Some(Side::Near))),
            Some("far") => Ok(Self(Some(Side::Far))),
            other => Err(Problem::parameter("not an archive store", "right", other, "near, far")),
        }
    }
}
