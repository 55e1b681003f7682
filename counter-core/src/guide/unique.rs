//! Counting different things.
