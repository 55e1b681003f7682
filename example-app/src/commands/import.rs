//! The `import` command: counts access logs. Each line is counted exactly once, even if the program is
//! restarted or killed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error;
use std::io::{self, Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use clap::Args;
use counter_core::archive::Archive;
use counter_core::source::{Commit, Source, SourceName, Sources};
use counter_core::time::Grid;
use counter_core::{ErrorKind, Timestamp};
use counter_layer::{AccessCounterLayer, Forwarded, Identity};
use counter_log::{
    Fingerprint, Follower, Format, Grown, Import, Lines, LogCounter, LogFile, LogIndex, LogIndexError,
    LogTimeZone, Marks, Parser,
};
use tokio::signal::unix::Signal;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::findings::Findings;
use super::progress;
use super::stop::{stop_signals, unless_stopped};
use super::summary::Summary;
use super::target::{OpenTarget, Target};
use crate::flags::clock;
use crate::flags::store::check_archive;
use crate::problem::{At, causes, explain, is_denied};

/// Count the requests in access logs. Each line is only counted once.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Files, which may be compressed, or - for the standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format name, or format string of nginx or Apache.
    #[arg(long)]
    format: Option<Format>,
    /// Time zone of times without a zone, e.g. Europe/Berlin or +05:30. Default: UTC.
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    log_time_zone: Option<LogTimeZone>,
    /// Keep running, and count new lines.
    #[arg(long)]
    follow: bool,
    /// Proxies that have appended to X-Forwarded-For.
    #[arg(long, default_value_t = 0, value_name = "NUMBER", value_parser = clock::hops)]
    trust_hops: usize,
    /// Name of the server that wrote the logs.
    #[arg(long)]
    name: Option<String>,
    /// Database for hits that are older than the store keeps.
    #[arg(long, env = "COUNTER_ARCHIVE", hide_env_values = true, value_name = "URL")]
    archive: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Default name for logs.
const DEFAULT_NAME: &str = "log";

/// File name for the standard input.
const STDIN: &str = "-";

/// Maximum number of attempts to compare a log with other logs, if these are imported at the same time.
const MAX_ADMISSIONS: u32 = 3;

/// Interval at which files are checked for new lines.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Delay between attempts to start while a store is unavailable.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Interval at which we verify the positions in the store. If the store has lost data, lines must be counted
/// again even if the log does not grow.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time to send the remaining lines on shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between attempts to send the remaining lines on shutdown.
const CLOSE_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of queued log parts. Each can hold a deleted file open.
const MAX_QUEUE: usize = 256;

/// Number of bytes to read to detect the format.
const MAX_DETECTION_BYTES: u64 = 64 * 1024;

pub(crate) async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    if settings.files.iter().any(|file| file == Path::new(STDIN)) {
        if settings.follow {
            return Err(
                "--follow: the standard input cannot be followed; name a file, or omit this option".into()
            );
        }
        // The standard input does not have a fingerprint. Without a name, we would confuse it with a
        // different input.
        if settings.name.is_none() {
            return Err("the standard input requires --name, such as the name of the server".into());
        }
        if settings.format.is_none() {
            return Err("the standard input requires --format, such as combined".into());
        }
    }
    if let Some(name) = &settings.name {
        source_name(name, STDIN).at("--name")?;
    }
    // A wrong path should not create the store. If we follow logs, they may be created later.
    for file in settings.files.iter().filter(|file| *file != Path::new(STDIN)) {
        let checked = if settings.follow { can_follow(file) } else { settings.readable(file) };
        checked.at(file.display())?;
    }
    // We install the signal handlers first, so that the program can also be stopped while it connects to the
    // store.
    let mut stop = settings.follow.then(stop_signals).transpose()?;
    let Some(opened) = unless_stopped(&mut stop, settings.open()).await? else { return Ok(()) };
    let OpenTarget { counters, archive, .. } = &opened;
    let mut logs = Logs::new(&settings, &opened)?;
    if let Some(archive) = archive {
        let grid = counters.stats().grid().clone();
        if unless_stopped(&mut stop, settings.copy(archive, &grid)).await?.is_none() {
            return Ok(());
        }
        let mut copier = archive.copier(&grid);
        let (stop_copies, stopped) = oneshot::channel::<()>();
        let counting = async {
            let counted = logs.run(&settings.files, stop).await;
            drop(stop_copies);
            counted
        };
        let (counted, ()) = tokio::join!(counting, copier.run(async { drop(stopped.await) }));
        counted?;
    } else {
        logs.run(&settings.files, stop).await?;
    }
    let summary = Summary::new(&logs.sources, logs.findings.already_read(), started.elapsed());
    summary.warn(if archive.is_some() { "" } else { ": import the log again with --archive to keep them" });
    logs.findings.print(settings.trust_hops > 0)?;
    writeln!(stdout(), "{}", serde_json::to_string(&summary)?)?;
    logs.findings.check()
}

impl Settings {
    /// Checks whether a log can be read, and whether its format is known.
    fn readable(&self, file: &Path) -> Result<(), Box<dyn Error>> {
        if std::fs::metadata(file)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        let log = LogFile::open(file)?;
        let is_empty = std::fs::metadata(file)?.len() == 0
            || Fingerprint::read(log.reopen()?.chain(&b"\n"[..]))?.is_none();
        if !is_empty && self.format.is_none() {
            detect(log)?;
        }
        Ok(())
    }

    /// Opens the store.
    async fn open(&self) -> Result<OpenTarget, Box<dyn Error>> {
        self.retry(async || self.target.open(self.archive.as_deref()).await).await
    }

    /// Makes the copy that an import into an archive needs, even if a killed copier still holds the lease.
    async fn copy(&self, archive: &Archive, grid: &Grid) -> Result<(), Box<dyn Error>> {
        let copy = async || {
            check_archive(archive).await?;
            archive.copier(grid).without_lease().copy_once(Timestamp::now()).await?;
            Ok(())
        };
        self.retry(copy).await
    }

    /// Runs a step of the start. If we follow logs, this is repeated while a store is unavailable.
    async fn retry<T>(
        &self,
        mut step: impl AsyncFnMut() -> Result<T, Box<dyn Error>>,
    ) -> Result<T, Box<dyn Error>> {
        loop {
            match step().await {
                Err(error) if self.follow && is_unavailable(&*error) => {
                    tracing::warn!("{}; will retry", explain(&*error));
                    sleep(RETRY_DELAY).await;
                }
                done => return done,
            }
        }
    }
}

fn is_unavailable(error: &(dyn Error + 'static)) -> bool {
    let is_unavailable =
        |error: &counter_core::Error| *error.kind() == ErrorKind::Unavailable && !is_denied(error);
    causes(error).filter_map(|cause| cause.downcast_ref()).any(is_unavailable)
}

/// Logs with the same name.
struct Logs {
    sources: Sources,
    layer: AccessCounterLayer,
    format: Option<Format>,
    zone: Option<LogTimeZone>,
    name: String,
    /// Index of the logs that were counted with this name. Used to reject a log that contains lines of a
    /// different log.
    index: LogIndex,
    /// Logs that we follow.
    open: HashMap<Fingerprint, Open>,
    /// Logs that are skipped because the lines have already been counted.
    rejected: HashSet<Fingerprint>,
    findings: Findings,
}

/// A log that we follow.
struct Open {
    source: Source,
    /// Marks that are not in the index yet.
    marks: Marks,
}

/// Imports the parts of a log.
struct Reader {
    format: Format,
    import: Import,
}

/// Files that we follow, and the parts that need to be read.
struct Watch<'a> {
    files: &'a [PathBuf],
    followers: Vec<Follower>,
    /// Parts with the index of their file.
    queue: VecDeque<(usize, Grown)>,
}

impl Logs {
    fn new(settings: &Settings, opened: &OpenTarget) -> Result<Self, Box<dyn Error>> {
        let OpenTarget { store, counters, archive } = opened;
        let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(settings.trust_hops);
        let layer = settings.target.layer(counters, client)?;
        let (format, zone) = (settings.format.clone(), settings.log_time_zone.clone());
        let name = settings.name.as_deref().unwrap_or(DEFAULT_NAME).to_owned();
        let index = LogIndex::new(store.clone(), &name);
        let sources = match archive {
            Some(archive) => counters.sources().archive(archive),
            None => counters.sources().history(),
        };
        let (open, rejected, findings) = (HashMap::new(), HashSet::new(), Findings::default());
        Ok(Self { sources, layer, format, zone, name, index, open, rejected, findings })
    }

    async fn run(&mut self, files: &[PathBuf], stop: Option<[Signal; 2]>) -> Result<(), Box<dyn Error>> {
        if let Some(stop) = stop {
            self.follow(files, stop).await?;
            self.close().await;
            return Ok(());
        }
        for file in files {
            self.count(file).await.at(file.display())?;
        }
        Ok(())
    }

    async fn count(&mut self, file: &Path) -> Result<(), Box<dyn Error>> {
        if file == Path::new(STDIN) {
            return self.count_input().await;
        }
        let log = LogFile::open(file)?;
        let length = std::fs::metadata(file)?.len();
        // The only line may lack its line ending.
        let Some(fingerprint) = Fingerprint::read(log.reopen()?.chain(&b"\n"[..]))?.filter(|_| length > 0)
        else {
            return Ok(());
        };
        let Reader { format, import } = self.reader(log.reopen()?)?;
        let mut import = import.without_marks();
        let name = self.source(&fingerprint.to_string())?;
        let position = self.sources.open(name.clone()).await?.position();
        self.admit(&name, position, format, || Ok(log.reopen()?.into_lines(0))).await?;
        let already_read = lines(log.reopen()?.take(position))?;
        let is_compressed = log.is_compressed();
        let bar = progress::reading(file, is_compressed)?;
        let open = |position| {
            let before = lines(log.reopen()?.take(position))?;
            let mut log = log.reopen()?;
            bar.set_position(position);
            let exists = log.skip_to(position)?;
            let lines = Lines::new(bar.wrap_read(log), position).after(before);
            Ok(exists.then(|| if is_compressed { lines.finished() } else { lines.maybe_finished() }))
        };
        let end = import.count(name, open).await?;
        bar.finish_and_clear();
        self.findings.add(file, already_read, import.report());
        if !is_compressed && end.is_some_and(|end| end < length) {
            tracing::warn!(file = %file.display(), "the last line is incomplete and was not counted");
        }
        Ok(())
    }

    async fn count_input(&mut self) -> Result<(), Box<dyn Error>> {
        let format = self.format.clone().ok_or("the standard input requires --format")?;
        let mut import = self.import(format);
        let name = self.source("stdin")?;
        let mut already_read = 0;
        let mut is_first = true;
        let open = |position| {
            if !std::mem::take(&mut is_first) {
                return Err(io::Error::other(
                    "another import is further ahead, and the standard input cannot be read again",
                ));
            }
            already_read = lines(stdin().take(position))?;
            Ok(Some(Lines::new(stdin(), position).after(already_read).finished()))
        };
        let counted = import.count(name.clone(), open).await;
        self.index.note(&name, &import.take_marks()).await?;
        counted?;
        self.findings.add(Path::new(STDIN), already_read, import.report());
        Ok(())
    }

    /// Counts the files and any lines that are added, until a signal stops the program.
    async fn follow(
        &mut self,
        files: &[PathBuf],
        [mut interrupt, mut terminate]: [Signal; 2],
    ) -> Result<(), Box<dyn Error>> {
        let mut watch = Watch::new(files);
        tokio::select! {
            ended = self.follow_loop(&mut watch) => return ended,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // If a file still exists, it will be read by the next import.
        for (_, gone) in watch.queue.iter().filter(|(_, grown)| grown.is_gone()) {
            self.lose(gone);
        }
        Ok(())
    }

    async fn follow_loop(&mut self, watch: &mut Watch<'_>) -> Result<(), Box<dyn Error>> {
        let mut readers: Vec<Option<Reader>> = watch.files.iter().map(|_| None).collect();
        let mut checked = Instant::now();
        loop {
            watch.poll()?;
            let mut failed = Vec::new();
            while let Some((index, grown)) = watch.queue.front().cloned() {
                let mut counting = pin!(self.count_grown(&mut readers[index], &grown));
                // Files might be rotated and deleted while the store is unavailable, so we need to continue
                // to poll.
                let counted = loop {
                    tokio::select! {
                        counted = &mut counting => break counted,
                        () = sleep(POLL_INTERVAL) => watch.poll()?,
                    }
                };
                watch.queue.pop_front();
                if let Err(error) = counted {
                    tracing::warn!(%error, file = %grown.path().display(), "failed to count the log, will retry");
                    failed.push((index, grown.clone()));
                }
            }
            watch.queue.extend(failed);
            if checked.elapsed() >= CHECK_INTERVAL {
                self.check(&mut watch.followers).await;
                checked = Instant::now();
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn count_grown(
        &mut self,
        reader: &mut Option<Reader>,
        grown: &Grown,
    ) -> Result<(), Box<dyn Error>> {
        let fingerprint = grown.fingerprint();
        if self.rejected.contains(&fingerprint) {
            return Ok(());
        }
        let Reader { format, import } = match reader {
            Some(reader) => reader,
            None => {
                // This part may have been moved to a different file.
                let Some(file) = grown.open()? else { return Ok(()) };
                reader.insert(self.reader(file)?)
            }
        };
        if !self.open.contains_key(&fingerprint) {
            let name = self.source(&fingerprint.to_string())?;
            let source = self.sources.open(name.clone()).await?;
            if grown.lines(0)?.is_some() {
                let gone = || io::Error::other("the file was deleted");
                let lines = || grown.lines(0)?.ok_or_else(gone);
                match self.admit(&name, source.position(), format.clone(), lines).await {
                    Err(
                        error @ (LogIndexError::Counted { .. }
                        | LogIndexError::SameBeginning
                        | LogIndexError::TooManyLogs { .. }),
                    ) => {
                        tracing::error!(%error, file = %grown.path().display(), "the log was rejected");
                        self.rejected.insert(fingerprint);
                        return Ok(());
                    }
                    admitted => admitted?,
                }
            }
            self.open.insert(fingerprint, Open { source, marks: Marks::default() });
        }
        let Some(open) = self.open.get_mut(&fingerprint) else { return Ok(()) };
        let counted = import.count_into(&mut open.source, |position| grown.lines(position)).await;
        open.marks.merge(import.take_marks());
        if counted?.is_none() && grown.is_gone() {
            self.lose(grown);
        }
        Ok(())
    }

    /// Reports lines that were deleted before they were read.
    fn lose(&mut self, gone: &Grown) {
        let file = gone.path().display();
        // We can't compare these: the position is in the decompressed text, but the length is the file size.
        if gone.path().extension().is_some_and(|extension| extension == "gz") {
            return;
        }
        match self.open.get_mut(&gone.fingerprint()) {
            Some(Open { source, .. }) if source.position() >= gone.length() => {}
            Some(Open { source, .. }) => {
                let bytes = gone.length() - source.position();
                source.lose(source.position()..gone.length());
                tracing::error!(%file, bytes, "the file was deleted before it was read, the remaining lines are not counted");
            }
            None => {
                tracing::error!(%file, "the file was deleted before it was read, no lines are counted");
            }
        }
    }

    /// Verifies the counts in the store. If the store has lost counts of a log, the log will be read again.
    async fn check(&mut self, followers: &mut [Follower]) {
        self.note_marks().await;
        self.open.retain(|log, _| followers.iter().any(|follower| follower.has(*log)));
        for (log, Open { source, .. }) in &mut self.open {
            match source.check().await {
                Ok(Commit::Done) => {}
                Ok(Commit::Moved) => {
                    tracing::info!(source = %source.name(), position = source.position(), "the position in the store has changed, reading the log again");
                    followers.iter_mut().for_each(|follower| follower.again(*log));
                }
                // The remaining logs are checked when the store is available again.
                Err(error) => {
                    return tracing::warn!(%error, "failed to check the positions in the store, will retry");
                }
            }
        }
    }

    /// Writes the new marks to the index.
    async fn note_marks(&mut self) {
        for Open { source, marks } in self.open.values_mut().filter(|open| !open.marks.is_empty()) {
            match self.index.note(source.name(), marks).await {
                Ok(()) => *marks = Marks::default(),
                Err(error) => return tracing::warn!(%error, "failed to write the log index, will retry"),
            }
        }
    }

    /// Sends lines that were read before shutdown.
    async fn close(&mut self) {
        let closing = async {
            for Open { source, .. } in self.open.values_mut() {
                // This fails if another import is ahead. In this case, the source continues from the position
                // of that import.
                while source.close().await.is_err() {
                    sleep(CLOSE_RETRY_DELAY).await;
                }
            }
            self.note_marks().await;
        };
        if timeout(CLOSE_TIMEOUT, closing).await.is_err() {
            tracing::warn!(
                "the store did not accept the last lines in time, the next import will read them again"
            );
        }
    }

    /// Compares a log with the logs that were imported before, again if another import was faster.
    async fn admit<R: io::Read>(
        &self,
        name: &SourceName,
        position: u64,
        format: Format,
        lines: impl Fn() -> io::Result<Lines<R>>,
    ) -> Result<(), LogIndexError> {
        for _ in 1..MAX_ADMISSIONS {
            let parser = self.parser(format.clone());
            match self.index.admit(name, position, parser, lines().map_err(LogIndexError::Log)?).await {
                Err(LogIndexError::Concurrent) => {}
                decided => return decided,
            }
        }
        self.index.admit(name, position, self.parser(format), lines().map_err(LogIndexError::Log)?).await
    }

    /// Creates an import for a log. The format is detected from this file if it is not set.
    fn reader(&self, file: LogFile) -> Result<Reader, Box<dyn Error>> {
        let format = match &self.format {
            Some(format) => format.clone(),
            None => detect(file)?,
        };
        Ok(Reader { import: self.import(format.clone()), format })
    }

    fn import(&self, format: Format) -> Import {
        let import = Import::new(self.sources.clone(), format, LogCounter::new(&self.layer));
        match &self.zone {
            Some(zone) => import.time_zone(zone.clone()),
            None => import,
        }
    }

    fn parser(&self, format: Format) -> Parser {
        let parser = Parser::new(format);
        match &self.zone {
            Some(zone) => parser.time_zone(zone.clone()),
            None => parser,
        }
    }

    fn source(&self, log: &str) -> Result<SourceName, Box<dyn Error>> {
        source_name(&self.name, log)
    }
}

impl<'a> Watch<'a> {
    fn new(files: &'a [PathBuf]) -> Self {
        Self { files, followers: files.iter().map(Follower::new).collect(), queue: VecDeque::new() }
    }

    /// Adds new parts to the queue. Queued files can be read even if they are deleted.
    fn poll(&mut self) -> Result<(), Box<dyn Error>> {
        for (index, (follower, file)) in self.followers.iter_mut().zip(self.files).enumerate() {
            for grown in follower.poll().at(file.display())? {
                // We must not replace the front of the queue, because it might be in use.
                let is_same = |(_, queued): &(usize, Grown)| {
                    queued.fingerprint() == grown.fingerprint() && queued.path() == grown.path()
                };
                let queued = self.queue.iter().skip(1).position(is_same);
                if let Some(queued) = queued {
                    self.queue[queued + 1] = (index, grown);
                } else if self.queue.len() < MAX_QUEUE {
                    self.queue.push_back((index, grown));
                } else {
                    follower.again(grown.fingerprint());
                }
            }
        }
        Ok(())
    }
}

/// Returns the name of the source for a log.
fn source_name(name: &str, log: &str) -> Result<SourceName, Box<dyn Error>> {
    Ok(format!("{name}:{log}").parse()?)
}

/// Checks whether a log can be followed. It may not exist yet.
fn can_follow(file: &Path) -> Result<(), Box<dyn Error>> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Follower::new(file).poll()?;
            tracing::warn!("{}: there is no such file yet; waiting until it is created", file.display());
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Detects the format of a log.
fn detect(log: LogFile) -> Result<Format, Box<dyn Error>> {
    let mut head = Vec::new();
    log.take(MAX_DETECTION_BYTES).read_to_end(&mut head)?;
    let detected = Format::detect(&head);
    detected.map_err(|error| format!("{error}; set --format, or check that this is a log").into())
}

fn lines(mut log: impl Read) -> io::Result<u64> {
    let (mut buffer, mut lines) = (vec![0; 64 * 1024], 0);
    loop {
        let read = log.read(&mut buffer)?;
        if read == 0 {
            return Ok(lines);
        }
        lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}
