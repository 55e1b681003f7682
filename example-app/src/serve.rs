//! The site: settings, background tasks, and the HTTP server.

mod announcement;
mod parts;
mod server;
mod watch;
pub(crate) mod settings;
pub(crate) mod site;
