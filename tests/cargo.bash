# How the tests are built and run: everywhere with the same features, so that no crate is compiled twice.
# To be sourced.

everything=(--locked --workspace --all-features)

# Builds the tests, and the example with the crates that they share.
build_tests() {
    cargo build "${everything[@]}" --tests --bins --example minimal --example hyper
    local target
    target=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    export COUNTER_EXAMPLE="$target/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}debug/example-app"
}

# Runs tests, of `--tests` or `--test suite`, with arguments for the programs after `--`. Most of them wait for
# servers most of the time: more of them at once than there are cores.
run_tests() {
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-4} cargo test "${everything[@]}" "$@"
}
