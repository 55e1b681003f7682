//! The site: its flags, what runs beside its server, and the server.

mod announcement;
mod parts;
mod server;
mod watch;
pub(crate) mod settings;
pub(crate) mod site;
