//! The `dump` command: writes all visits and unique counters of a store to a file.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write, stderr, stdout};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use counter_core::Counters;
use counter_core::dump::Dumped;
use counter_core::unique::dump::{UniqueDump, UniqueDumped};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::copy::{StoreArgs, is_compressed};
use super::progress;
use super::stop::{stop_signals, unless_stopped};
use crate::flags::store::{Mode, Opened};
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
    let output = Output::create(file).at(file.display())?;
    // A signal would leave an incomplete file behind. It can't interrupt a write to a pipe that nobody reads.
    let mut stop = output.is_new_file().then(stop_signals).transpose()?;
    let Some(summary) = unless_stopped(&mut stop, write(started, file, opened, &counters, output)).await?
    else {
        return Err("the dump was stopped, so there is no file; repeat it").at(file.display());
    };
    let summary = serde_json::to_string(&summary)?;
    if file == Path::new("-") {
        writeln!(stderr(), "{summary}")?;
    } else {
        writeln!(stdout(), "{summary}")?;
    }
    Ok(())
}

/// Writes everything to the output.
async fn write(
    started: Instant,
    file: &Path,
    opened: Opened,
    counters: &Counters,
    mut output: Output,
) -> Result<Summary, Box<dyn Error>> {
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
    Ok(Summary { dumped, unique, lines, seconds: started.elapsed().as_secs_f64() })
}

enum Output {
    Plain(BufWriter<NewFile>),
    Compressed(GzEncoder<BufWriter<NewFile>>),
    Standard(BufWriter<io::Stdout>),
}

/// A file that is removed when it is dropped, unless it is complete.
struct NewFile {
    file: File,
    /// `None` if the file must be kept.
    incomplete: Option<PathBuf>,
}

impl Output {
    fn create(file: &Path) -> io::Result<Self> {
        if file == Path::new("-") {
            return Ok(Self::Standard(BufWriter::new(stdout())));
        }
        let writer = BufWriter::new(NewFile::create(file)?);
        let is_compressed = is_compressed(file);
        Ok(if is_compressed {
            Self::Compressed(GzEncoder::new(writer, Compression::default()))
        } else {
            Self::Plain(writer)
        })
    }

    /// Returns `true` if this is a file that is removed if it is not complete.
    fn is_new_file(&self) -> bool {
        match self {
            Self::Plain(writer) => writer.get_ref().incomplete.is_some(),
            Self::Compressed(encoder) => encoder.get_ref().get_ref().incomplete.is_some(),
            Self::Standard(_) => false,
        }
    }

    /// Flushes all data to the file, and syncs the file to disk.
    fn end(self) -> io::Result<()> {
        let mut writer = match self {
            Self::Plain(writer) => writer,
            Self::Compressed(encoder) => encoder.finish()?,
            Self::Standard(mut writer) => return writer.flush(),
        };
        writer.flush()?;
        writer.get_mut().complete()
    }
}

impl NewFile {
    /// Creates the file. A file that exists is never replaced, because it might be the store. Pipes and terminals can be
    /// written.
    fn create(path: &Path) -> io::Result<Self> {
        let is_stream = |kind: fs::FileType| kind.is_fifo() || kind.is_char_device();
        match fs::metadata(path) {
            Ok(found) if is_stream(found.file_type()) => {
                Ok(Self { file: OpenOptions::new().write(true).open(path)?, incomplete: None })
            }
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            _ => Ok(Self { file: File::create_new(path)?, incomplete: Some(path.to_owned()) }),
        }
    }

    /// Syncs the file to disk, and keeps it.
    fn complete(&mut self) -> io::Result<()> {
        if self.incomplete.is_some() {
            self.file.sync_all()?;
        }
        self.incomplete = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = &self.incomplete {
            // If it can't be removed, `restore` will report that it is truncated.
            drop(fs::remove_file(path));
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
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
