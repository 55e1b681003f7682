#!/usr/bin/env python3
"""Adds all mutations to a copy of the sources, each behind a switch, so that a single build is enough.

    tests/models/mutations.py change FOLDER    changes the sources in FOLDER
    tests/models/mutations.py run PROGRAM...   runs the program with each mutation, and fails if no test fails

A program that runs with `COUNTER_MUTATION=7` uses the changed text of mutation 7. Both texts are expressions, or statements. The
original must occur exactly once in the file.
"""

import os
import pathlib
import subprocess
import sys
import time

BATCH = "counter-core/src/visits/store/batch.rs"
WITNESS = "counter-core/src/visits/store/witness.rs"
WRITER = "counter-core/src/visits/flush/writer.rs"
FLUSHER = "counter-core/src/visits/flush/shard_flusher.rs"
LANE = "counter-core/src/visits/source/lane.rs"
READER = "counter-core/src/visits/source/reader.rs"
RECOVERY = "counter-core/src/visits/spool/recovery.rs"
LEFTOVER = "counter-core/src/visits/spool/leftover.rs"
ARCHIVE = "counter-core/src/visits/archive.rs"
COPIER = "counter-core/src/visits/archive/copier.rs"
RESTORE = "counter-core/src/visits/archive/restore.rs"
AUDIT = "counter-core/src/visits/archive/audit.rs"
VALUE = "counter-core/src/visits/archive/audit/value.rs"
DOCUMENTS = "counter-core/src/document/memory.rs"
SHARED = "counter-core/alert/src/watch/shared.rs"
STATE = "counter-core/alert/src/watch/state.rs"
WATCH = "counter-core/alert/src/watch/watch.rs"

# The tests of which at least one must fail, the file, the original and the changed text.
MUTATIONS = [
    ("writers", BATCH, "last > 0 && self.is_opening() && self.sequence > 1", "false"),
    ("writers", BATCH, "last < self.after", "last + 1 < self.after"),
    ("writers", BATCH, "last >= self.sequence && !is_source", "last == self.sequence && !is_source"),
    ("writers", WITNESS, "(&self.data, &self.writers, self.listed) == (&other.data, &other.writers, other.listed)", "true"),
    ("writers", WITNESS, "other_data || earlier", "other_data"),
    ("writers", WITNESS, "!self.evicts", "true"),
    ("writers", WRITER, "now.proves_loss_since(before)", "true"),
    ("writers", WRITER, "idle_time < IDLE_WRITER_TTL", "true"),
    ("writers", FLUSHER, "self.replays.retain(batch, now);", "drop(batch);"),
    ("writers", FLUSHER, "was_in_doubt.or_else(|| Some(Instant::now()))", "None"),
    ("writers", WRITER, "Duration::ZERO", "IDLE_WRITER_TTL"),
    ("writers", FLUSHER, "self.resolve_up_to(doubtful.map_or(last, |batch| batch.fence.sequence), last);", "drop(doubtful);"),
    ("servers", FLUSHER, "self.link(last);", ""),
    ("servers", WITNESS, "before.data.is_some() && self.data != before.data && !self.listed",
     "before.data.is_some() && self.data != before.data"),
    ("servers", FLUSHER, "self.store.apply(batch).await?", "ApplyOutcome::SequenceGap { found: Default::default() }"),
    ("sources", BATCH, "last != self.after && is_source", "false"),
    ("sources", LANE, "self.outgoing.is_some() || self.counted >= position", "self.counted >= position"),
    ("sources", LANE, "(self.counted, self.read_to, self.pending) = (position, position, Pending::default());",
     "(self.counted, self.read_to) = (position, position);"),
    ("sources", READER, "range.start >= lane.read_to.max(before)", "range.start >= before"),
    ("sources", READER, "failed = failed.or(Some(error))", "{ lane.outgoing = None; failed = failed.or(Some(error)); }"),
    ("spool", FLUSHER, "self.cut();\n            self.save().await;", "self.cut();"),
    ("spool", FLUSHER, "self.replays.first().unwrap_or_else(|| self.writer.upcoming())", "self.writer.upcoming()"),
    ("spool", RECOVERY, "self.sent.push_back((Instant::now() + RECHECK_DELAY, slot));",
     "with_timeout(DISK_TIMEOUT, slot.remove()).await?;"),
    ("spool", LEFTOVER, "item.batch.fence.sequence <= found.sequence", "item.batch.fence.sequence <= found.sequence + 1"),
    ("spool", LEFTOVER, "(sequence..)", "(sequence - 1..)"),
    ("spool", LEFTOVER, "waiting.sequence > found.sequence", "false"),
    ("archive", COPIER, "end.min(oldest).max(progress.settled)", "end.max(progress.settled)"),
    ("archive", COPIER, "self.copier.archive.far.put(&page).await", "{ drop(self.copier.archive.far.put(&page).await); Ok(()) }"),
    ("archive", COPIER, "chunks(precision, leaving)", "chunks(precision, closed..closed)"),
    ("archive", ARCHIVE, "retention.samples.saturating_add(waiting)", "retention.samples"),
    ("repairs", RESTORE, "self.missing().await?",
     "{ let missing = self.missing().await?; at = position(self.archive, self.shard, self.grid).await?; missing }"),
    ("repairs", RESTORE, "count - present", "count"),
    ("repairs", VALUE, "this < other", "this.saturating_add(1) < *other"),
    ("repairs", AUDIT, "self.put(values, retention.precision, counters, late, false).await?;", ""),
    ("repairs", AUDIT, "rejected += values_of(Adds::Lifetimes).await?;",
     "rejected += values_of(Adds::Samples).await? + values_of(Adds::Lifetimes).await?;"),
    ("alerts", DOCUMENTS, "if document.version != version {\n                return Ok(None);\n            }", ""),
    ("alerts", SHARED, "outgoing.holder == holder\n                || outgoing.until <= now", "true"),
    ("alerts", SHARED, "outgoing.until <= now", "outgoing.until == 0"),
    ("alerts", SHARED, "!arrived.iter().any(|id| id == outgoing.message.id())", "true"),
    ("alerts", STATE, "self.judged = end;", "self.judged = start.as_unix();"),
    ("alerts", WATCH, "self.alerts().change(|shared, _| shared.finish(&self.holder, &arrived, now)).await?", "()"),
]

SWITCH = """
/// Returns `true` if this mutation is switched on.
#[doc(hidden)]
pub fn mutated(number: usize) -> bool {
    static NUMBER: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("COUNTER_MUTATION").ok());
    NUMBER.as_ref().is_some_and(|of| *of == number.to_string())
}
"""


# The unchanged tests take a fraction of this, so a program that takes longer has an endless run.
TIMEOUT_SECONDS = 180

# With these mutations, a call never returns. For all others, a timeout just means that no test failed in time.
ENDLESS = {"range.start >= lane.read_to.max(before)"}

# The status of `timeout`.
TIMED_OUT = 124


def change(root: pathlib.Path) -> None:
    with open(root / "counter-core/src/lib.rs", "a") as crate:
        crate.write(SWITCH)
    for number, (_, name, before, after) in enumerate(MUTATIONS):
        path = root / name
        text = path.read_text()
        if text.count(before) != 1:
            sys.exit(f"{name}: {text.count(before)} times: {before}")
        crate = "counter_core" if "/alert/" in name else "crate"
        switched = f"if {crate}::mutated({number}) {{ {after} }} else {{ {before} }}"
        is_statement = before.endswith((";", "}"))
        path.write_text(text.replace(before, switched if is_statement else f"({switched})"))


def first_failure(program: list[str], number: int) -> str:
    """Describes the first run that fails. Returns an empty string if all tests pass."""
    environment = os.environ | {"COUNTER_MUTATION": str(number), "RUST_BACKTRACE": "0"}
    tests = [f"{MUTATIONS[number][0]}::", "--nocapture"]
    command = ["timeout", str(TIMEOUT_SECONDS), *program, *tests]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in running.stdout:
        # Other tests may need a while to end.
        if " fails after " in line:
            running.terminate()
            running.wait()
            return line.split(": choices")[0]
    is_endless = running.wait() == TIMED_OUT and MUTATIONS[number][2] in ENDLESS
    return "does not end" if is_endless else ""


def run(program: list[str]) -> None:
    missed = []
    for number, (_, name, before, _) in enumerate(MUTATIONS):
        began = time.monotonic()
        failure = first_failure(program, number)
        text = f"{name}: {' '.join(before.split())}"
        print(f"{failure or 'not found'}, {time.monotonic() - began:.0f} s: {text}", flush=True)
        if not failure:
            missed.append(text)
    if missed:
        sys.exit(f"no model fails with {len(missed)} of {len(MUTATIONS)} mutations")


match sys.argv[1:]:
    case ["change", folder]:
        change(pathlib.Path(folder))
    case ["run", *program] if program:
        run(program)
    case _:
        sys.exit(__doc__)
