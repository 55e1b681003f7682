//! Micro benchmarks. To run a subset, pass a name: `tests/bench/run micro record`.

mod record;
mod decide;
mod line;
mod sketch;
mod flush;

fn main() {
    divan::main();
}
