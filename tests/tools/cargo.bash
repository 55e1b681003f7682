# Builds and runs the tests, always with the same features so that crates are compiled only once. To be sourced.

# Published packages that don't need librdkafka.
packages=(counter-core counter-alert counter-layer counter-admin counter-log)

# Prints the features of a package, one per line.
features_of() {
    local root manifest
    root="$(dirname "${BASH_SOURCE[0]}")/../.."
    manifest="$(grep -lx "name = \"$1\"" "$root"/counter-*/Cargo.toml "$root"/counter-*/*/Cargo.toml)"
    sed -n '/^\[features\]/,/^$/s/^\([a-z0-9-]*\) = .*/\1/p' "$manifest"
}

# We can't use `--all-features`, because the example's `kafka` feature would build librdkafka, which takes 165 s.
features=()
for package in "${packages[@]}"; do
    for feature in $(features_of "$package"); do
        features+=(--features "$package/$feature")
    done
done
unset package feature
features+=(--features example-app/manual)
everything=(--locked --workspace --exclude counter-kafka "${features[@]}")
# Examples of these packages. There are more in `tests`, but those are tools.
examples=()
for example in "$(dirname "${BASH_SOURCE[0]}")"/../../counter-{core,core/alert,layer,layer/admin,layer/log}/examples/*.rs; do
    examples+=(--example "$(basename "$example" .rs)")
done
unset example
# Used by `tests/tools/kafka`.
with_kafka=(--locked --workspace "${features[@]}" --features example-app/kafka)

# Prints the target folder.
target_folder() {
    cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# Sets the path to the example program, which the tests need.
export_example() {
    COUNTER_EXAMPLE="$(target_folder)/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}debug/example-app"
    export COUNTER_EXAMPLE
}

# Builds the tests and the example together, so that they share crates. The profile optimizes dependencies.
build_tests() {
    cargo build "${everything[@]}" --profile test --tests --bins "${examples[@]}"
    export_example
}

# Runs tests: `--tests` or `--test suite`, with arguments for the programs after `--`. We use more threads than cores, because
# tests mostly wait for servers.
run_tests() {
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-12} cargo test "${everything[@]}" "$@"
}
