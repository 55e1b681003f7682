mod decision;
mod fields;
mod over;
mod turns;
mod rejection;
mod key;
mod gate;
mod future;
mod service;
mod layer;

pub use fields::PolicyNameError;
pub use future::LimitFuture;
pub use gate::OnStoreError;
pub use key::LimitKey;
pub use layer::WindowLimitLayer;
pub use rejection::{EmptyRejection, ProblemRejection, Rejection};
pub use service::WindowLimit;
