//! The dashboard in a browser: with the keyboard, without JavaScript, and on a phone.
//!
//! Screenshots are written to the folder `screenshots` in the target folder.

mod checks;
mod sessions;
mod periods;
mod menus;
mod chart;
mod notes;
mod pages;
mod layout;
mod outage;
mod alerts;

use std::time::Duration;

/// Timeout for changes on a page, long enough to be safe on a busy machine.
const LIMIT: Duration = tests::LIMIT;
