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

# Prints the number of test threads: up to six per core, because tests mostly wait for servers, but fewer if the cores are slow
# or busy.
test_threads() {
    local cores began took workers=() step each
    cores=$(nproc)
    began=${EPOCHREALTIME//[.,]/}
    for _ in $(seq "$cores"); do
        # Takes a second on an idle core with 2.5 GHz.
        (for ((step = 0; step < 400000; step++)); do :; done) &
        workers+=($!)
    done
    wait "${workers[@]}"
    took=$((${EPOCHREALTIME//[.,]/} - began))
    each=$((6 * 1000000 / took))
    echo $((cores * (each < 3 ? 3 : each > 6 ? 6 : each)))
}

# Runs tests: `--tests` or `--test suite`, with arguments for the programs after `--`. Then prints the tests that waited for more
# than half of a limit.
run_tests() {
    local status=0 near threads
    near=$(mktemp)
    threads=${RUST_TEST_THREADS:-$(test_threads)}
    echo "running tests in $threads threads"
    COUNTER_NEAR_LIMITS=$near RUST_TEST_THREADS=$threads cargo test "${everything[@]}" "$@" || status=$?
    if [ -s "$near" ]; then
        echo "tests that waited for more than half of a limit:"
        sort --numeric-sort --reverse "$near"
    fi
    rm -f "$near"
    return "$status"
}
