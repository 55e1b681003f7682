//! The pages and routes.

pub(crate) mod assets;
pub(crate) mod frame;
pub(crate) mod pages;
pub(crate) mod alerts;
pub(crate) mod routes;
pub(crate) mod alert_routes;
