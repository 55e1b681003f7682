//! The `restore` command: adds a dump to a store. Everything is added exactly once, even if the program is
//! restarted or killed.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use counter_core::dump::{Restore, RestoreError, Restored};
use counter_core::unique::dump::{UniqueRestore, UniqueRestored};
use flate2::bufread::MultiGzDecoder;
use indicatif::ProgressBar;
use serde::Serialize;

use super::copy::{StoreArgs, is_compressed};
use super::progress;
use crate::flags::store::Mode;
use crate::problem::At;
use crate::retry::Retry;

/// Add a dump to a store. Each part is only added once.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// File to read, compressed if the name ends in .gz, or - for the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// Summary that is printed at the end.
#[derive(Debug, Serialize)]
struct Summary {
    counters: u64,
    samples: u64,
    sketches: u64,
    distributions: u64,
    lifetimes: u64,
    already_restored: u64,
    expired: u64,
    unknown: u64,
    ahead: u64,
    refused: u64,
    unreadable: u64,
    unique: Unique,
    seconds: f64,
}

/// The part of the summary about unique counters.
#[derive(Debug, Serialize)]
struct Unique {
    counters: u64,
    items: u64,
    added: u64,
    sketches: u64,
    refused: u64,
    unreadable: u64,
}

pub(crate) async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let (started, file) = (Instant::now(), &*settings.file);
    let (mut input, bar) = open(file).at(file.display())?;
    let start = input.fill_buf().at(file.display())?;
    // A wrong file should not create the store.
    if start.is_empty() {
        let reason = "the file is empty, so the dump is truncated after line 0; copy the whole file, or repeat the dump";
        return Err(reason).at(file.display());
    }
    if !start.starts_with(b"{") {
        return Err("this is not a dump; the file must be written by `dump`").at(file.display());
    }
    let (opened, counters) = settings.store.open(Mode::Write).await?;
    if opened.is_in_memory {
        let reason = "the counts would be lost, because those in memory end with their process; name a file or a server";
        return Err(reason).at(opened.option);
    }
    let (mut unique, mut restore) = (UniqueRestore::new(opened.store), counters.restore());
    let (mut retry, mut lines, mut line) = (Retry::new(&opened.option), 0, Vec::new());
    loop {
        line.clear();
        // We read beyond the maximum so that lines that are too long can be rejected.
        match input.by_ref().take(Restore::MAX_LINE as u64 + 3).read_until(b'\n', &mut line) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(RestoreError::Truncated { line: lines }).at(file.display());
            }
            read => read.at(file.display())?,
        };
        if line.is_empty() {
            break;
        }
        let is_unique = UniqueRestore::is_line(&line);
        while let Err(error) = if is_unique { unique.line(&line).await } else { restore.line(&line).await } {
            // All lines of a dump end with a newline. A file with a single line is probably not a dump.
            let is_torn = lines > 0 && !line.ends_with(b"\n") && line.len() <= Restore::MAX_LINE;
            let error = match error {
                RestoreError::Malformed { .. } if is_torn => RestoreError::Truncated { line: lines },
                error => error,
            };
            wait_for_store(error, &mut retry).await.at(file.display())?;
        }
        lines += 1;
        retry.reset();
    }
    let unique = unique.finish().at(file.display())?;
    let restored = loop {
        match restore.finish().await {
            Ok(restored) => break restored,
            Err(RestoreError::Truncated { .. }) => {
                return Err(RestoreError::Truncated { line: lines }).at(file.display());
            }
            Err(error) => wait_for_store(error, &mut retry).await.at(file.display())?,
        }
    };
    bar.finish_and_clear();
    warn(&restored, &unique);
    let Restored { counters, samples, sketches, distributions, lifetimes, already_restored, .. } = restored;
    let Restored { expired, unknown, ahead, rejected, unreadable, .. } = restored;
    let seconds = started.elapsed().as_secs_f64();
    let summary = Summary {
        counters,
        samples,
        sketches,
        distributions,
        lifetimes,
        already_restored,
        expired,
        unknown,
        ahead,
        refused: rejected,
        unreadable,
        unique: Unique::from(unique),
        seconds,
    };
    writeln!(stdout(), "{}", serde_json::to_string(&summary)?)?;
    Ok(())
}

impl From<UniqueRestored> for Unique {
    fn from(restored: UniqueRestored) -> Self {
        let UniqueRestored { counters, items, added, sketches, rejected, unreadable, .. } = restored;
        Self { counters, items, added, sketches, refused: rejected, unreadable }
    }
}

fn warn(restored: &Restored, unique: &UniqueRestored) {
    let unknown = restored.unknown;
    let (rejected, unreadable) =
        (restored.rejected + unique.rejected, restored.unreadable + unique.unreadable);
    if unknown > 0 {
        let precisions: Vec<_> = restored.unknown_precisions.iter().map(ToString::to_string).collect();
        let precisions = precisions.join(", ");
        tracing::warn!(unknown, precisions, "the dump contains precisions that this store does not keep");
    }
    let ahead = restored.ahead;
    if ahead > 0 {
        tracing::warn!(ahead, "some values in the dump are more than 25 hours ahead of the store clock");
    }
    if rejected > 0 {
        tracing::warn!(rejected, "the store rejected some values in the dump");
    }
    if unreadable > 0 {
        tracing::warn!(
            unreadable,
            "some values could not be read when the dump was created, and are missing in it"
        );
    }
}

/// Waits if the store is unavailable. Returns other errors.
async fn wait_for_store(error: RestoreError, retry: &mut Retry) -> Result<(), Box<dyn Error>> {
    match error {
        RestoreError::Store(error) => retry.wait(error).await,
        error => Err(error.into()),
    }
}

fn open(file: &Path) -> std::io::Result<(Box<dyn BufRead>, ProgressBar)> {
    if file == Path::new("-") {
        let bar = progress::writing(file);
        return Ok((Box::new(BufReader::new(bar.wrap_read(stdin()))), bar));
    }
    let is_compressed = is_compressed(file);
    let bar = progress::reading(file, is_compressed)?;
    let input = BufReader::new(bar.wrap_read(File::open(file)?));
    let input: Box<dyn BufRead> = match is_compressed {
        true => Box::new(BufReader::new(MultiGzDecoder::new(input))),
        false => Box::new(input),
    };
    Ok((input, bar))
}
