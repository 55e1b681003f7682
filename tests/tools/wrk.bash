# What the commands share that drive servers with wrk. It is sourced from the root of the workspace,
# by a command that says in $packages what it needs, and in `end` what it stops.

command=tests/${0##*/}
folder=$(mktemp -d)
target=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')

trap end EXIT
# A signal ends the script by way of the trap above.
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

# Ends processes, one after the other.
stop() {
    local process
    for process in "$@"; do
        kill -TERM "$process" 2>/dev/null || true
        wait "$process" || true
    done
}

# Waits until a command succeeds, ten seconds at most.
await() {
    for _ in $(seq 200); do
        if "$@"; then
            return
        fi
        sleep 0.05
    done
    fail "waited in vain for: $*"
}

# Whether a server has said in its log where it listens, and that in $address.
listens() {
    address=$(sed -n 's|^ *http://\([0-9.:]*\)/$|\1|p' "$1")
    [ -n "$address" ]
}
