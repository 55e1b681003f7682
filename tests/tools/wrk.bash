# Functions shared by the commands that start servers, e.g. to load them with wrk. To be sourced from the root of the workspace.
# The command must set $packages to the required packages, and define `end` to stop the servers.

command=tests/tools/${0##*/}
folder=$(mktemp -d)
target=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')

trap end EXIT
# Exit on signals, so that the trap above is run.
trap 'exit 130' INT TERM

fail() {
    echo "$command: $*" >&2
    exit 1
}

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || fail "$tool is missing: run \`sudo apt-get install $packages\` once."
    done
}

# Stops processes in this order.
stop() {
    local process
    for process in "$@"; do
        kill -TERM "$process" 2>/dev/null || true
        wait "$process" || true
    done
}

# Waits until a command succeeds, for at most ten seconds.
await() {
    for _ in $(seq 200); do
        if "$@"; then
            return
        fi
        sleep 0.05
    done
    fail "timed out waiting for: $*"
}

# Checks if a server has logged the listening address, and sets $address.
listens() {
    address=$(sed -n 's|^ *http://\([0-9.:]*\)/$|\1|p' "$1")
    [ -n "$address" ]
}
