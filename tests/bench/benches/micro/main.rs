//! The small parts of counting, in time. `cargo bench -- record` runs those of that name.

mod record;

fn main() {
    divan::main();
}
