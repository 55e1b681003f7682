//! The pages and routes.

pub(crate) mod note_forms;
pub(crate) mod goal_forms;
pub(crate) mod update;
pub(crate) mod frame;
pub(crate) mod pages;
pub(crate) mod routes;
pub(crate) mod ignore;
pub(crate) mod downloads;
pub(crate) mod share;
pub(crate) mod alerts;
pub(crate) mod rule_forms;
pub(crate) mod alert_routes;
