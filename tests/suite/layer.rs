//! The layer: how requests are counted, and that counting doesn't affect them.

mod requests;
mod rules;
mod outcome;
mod distributions;
mod bodies;
mod in_flight;
mod bots;
mod ignored;
mod country;
mod geo;
mod views;
mod missing;
mod identity;
mod cookie;
mod setup;
mod counted;
mod closures;
mod delivery;
mod limit;
mod log;
mod logged;
mod formats;
mod unrecorded;
mod follow;
mod stacks;
mod scan;
