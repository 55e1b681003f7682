//! Bots by name.

mod purpose;
mod bot;
mod names;
#[cfg(test)]
mod tests;

pub use bot::Bot;
pub(crate) use names::BotNames;
pub use purpose::Purpose;
