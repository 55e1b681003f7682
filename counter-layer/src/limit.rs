mod decision;
mod fields;
mod over;
mod turns;
mod refusal;
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
pub use refusal::{EmptyRefusal, ProblemRefusal, Refusal};
pub use service::WindowLimit;
