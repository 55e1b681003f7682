# How the tests are built and run: everywhere with the same features, so that no crate is compiled twice.
# To be sourced.

# The packages that are published and build without librdkafka.
packages=(counter-core counter-alert counter-layer counter-admin counter-log)

# The features of a package, one a line.
features_of() {
    local root manifest
    root="$(dirname "${BASH_SOURCE[0]}")/../.."
    manifest="$(grep -lx "name = \"$1\"" "$root"/counter-*/Cargo.toml "$root"/counter-*/*/Cargo.toml)"
    sed -n '/^\[features\]/,/^$/s/^\([a-z0-9-]*\) = .*/\1/p' "$manifest"
}

# Not `--all-features`, which has the example's `kafka`: that builds librdkafka, 165 s of a C compiler.
features=()
for package in "${packages[@]}"; do
    for feature in $(features_of "$package"); do
        features+=(--features "$package/$feature")
    done
done
unset package feature
everything=(--locked --workspace --exclude counter-kafka "${features[@]}")
# What `tests/tools/kafka` builds.
with_kafka=(--locked --workspace "${features[@]}" --features example-app/kafka)

# The folder of what is built.
target_folder() {
    cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# Tells the tests where the example is that was built.
export_example() {
    COUNTER_EXAMPLE="$(target_folder)/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}debug/example-app"
    export COUNTER_EXAMPLE
}

# Builds the tests, and the example with the crates that they share.
build_tests() {
    cargo build "${everything[@]}" --tests --bins --example minimal --example hyper
    export_example
}

# Runs tests, of `--tests` or `--test suite`, with arguments for the programs after `--`. Most of them wait for
# servers most of the time: more of them at once than there are cores.
run_tests() {
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-6} cargo test "${everything[@]}" "$@"
}
