//! The small parts of counting, in time. `tests/bench/run micro record` runs those of that name.

mod record;
mod decide;
mod line;
mod sketch;
mod flush;

fn main() {
    divan::main();
}
