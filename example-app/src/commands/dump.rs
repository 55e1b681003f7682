//! The `dump` command: writes all visits and unique counters of a store to a file.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use counter_core::dump::Dumped;
use counter_core::unique::dump::{UniqueDump, UniqueDumped};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::copy::{StoreArgs, is_compressed};
use super::progress;
use crate::flags::store::Mode;
use crate::problem::At;
use crate::retry::Retry;

/// Write all counts of a store to a file.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// File to write, compressed if the name ends in .gz, or - for the standard output.
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// Summary that is printed at the end.
#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    dumped: Dumped,
    unique: UniqueDumped,
    lines: u64,
    seconds: f64,
}

pub(crate) async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let (started, file) = (Instant::now(), &*settings.file);
    let (opened, counters) = settings.store.open(Mode::Read).await?;
    let mut output = Output::create(file).at(file.display())?;
    let bar = progress::writing(file);
    let (mut unique, mut visits) = (UniqueDump::new(opened.store), counters.stats().dump());
    let (mut retry, mut lines) = (Retry::new(&opened.option), 0);
    // Visits must be written last, because they end with a line that marks the end of the file.
    loop {
        let line = match unique.next().await {
            Ok(None) => visits.next().await,
            line => line,
        };
        match line {
            Ok(Some(line)) => {
                retry.reset();
                writeln!(output, "{line}").at(file.display())?;
                lines += 1;
                bar.inc(line.len() as u64 + 1);
            }
            Ok(None) => break,
            Err(error) => retry.wait(error).await?,
        }
    }
    output.end().at(file.display())?;
    bar.finish_and_clear();
    let (dumped, unique) = (visits.dumped(), unique.dumped());
    let unreadable = dumped.unreadable + unique.unreadable;
    if unreadable > 0 {
        tracing::warn!(
            unreadable,
            "some values could not be read and are missing in the dump, which lists them"
        );
    }
    let summary =
        serde_json::to_string(&Summary { dumped, unique, lines, seconds: started.elapsed().as_secs_f64() })?;
    if file == Path::new("-") {
        writeln!(stderr(), "{summary}")?;
    } else {
        writeln!(stdout(), "{summary}")?;
    }
    Ok(())
}

enum Output {
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
    Standard(BufWriter<io::Stdout>),
}

impl Output {
    fn create(file: &Path) -> io::Result<Self> {
        if file == Path::new("-") {
            return Ok(Self::Standard(BufWriter::new(stdout())));
        }
        let writer = BufWriter::new(File::create(file)?);
        let is_compressed = is_compressed(file);
        Ok(if is_compressed {
            Self::Compressed(GzEncoder::new(writer, Compression::default()))
        } else {
            Self::Plain(writer)
        })
    }

    /// Flushes all data to the file, and syncs the file to disk.
    fn end(self) -> io::Result<()> {
        let mut writer = match self {
            Self::Plain(writer) => writer,
            Self::Compressed(encoder) => encoder.finish()?,
            Self::Standard(mut writer) => return writer.flush(),
        };
        writer.flush()?;
        writer.get_ref().sync_all()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(writer) => writer.write(bytes),
            Self::Compressed(encoder) => encoder.write(bytes),
            Self::Standard(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(writer) => writer.flush(),
            Self::Compressed(encoder) => encoder.flush(),
            Self::Standard(writer) => writer.flush(),
        }
    }
}
