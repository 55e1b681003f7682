//! Counts access logs: each line once, however often the program is started and wherever it is killed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::io::{self, Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use counter_core::Counters;
use counter_core::source::{Commit, Source, SourceName, Sources};
use counter_core::visitor::VisitorKey;
use counter_layer::log::{Fingerprint, Follower, Format, Grown, Import, Lines, LogFile};
use counter_layer::{AccessCounterLayer, Forwarded, Identity};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::progress;
use crate::summary::Summary;
use crate::target::Target;

/// Counts the lines of access logs as requests; lines that were counted before are not counted again.
///
/// Requests of days that the store no longer keeps, which are 120, are expired: only lifetimes count them, also where the site has an archive, which is copied from the store.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Files to count, also compressed by gzip; `-` is the standard input, which needs --name.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format: common, combined, vhost_combined, main, w3c, caddy, nginx, or a pattern in the words of Apache's LogFormat; without it, the first lines decide.
    #[arg(long, value_name = "F")]
    format: Option<Format>,
    /// Go on with what is appended to the files, also over rotations, until the program is told to stop.
    #[arg(long)]
    follow: bool,
    /// Number of trusted proxies that have appended to the X-Forwarded-For of the log.
    #[arg(long, default_value_t = 0, value_name = "N")]
    trust_hops: usize,
    #[command(flatten)]
    target: Target,
    /// Name of the logs, such as that of the server which wrote them; two servers need two names. Default: log.
    #[arg(long)]
    name: Option<String>,
}

/// The name of logs that are given none.
const NAME: &str = "log";

/// The file that is the standard input.
const INPUT: &str = "-";

/// The time between two looks at files that are followed.
const POLL: Duration = Duration::from_secs(1);

/// The time between two questions to the store about logs that are quiet: what it has lost is to be counted again
/// although nothing comes.
const CHECK: Duration = Duration::from_secs(5);

/// The time that the store has for what was read last, and the time between two attempts.
const CLOSE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// The bytes of which a format is found out.
const BEGINNING: u64 = 64 * 1024;

pub(crate) async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    if settings.files.iter().any(|file| file == Path::new(INPUT)) {
        if settings.follow {
            return Err(
                "the standard input cannot be followed: it is read to its end without --follow".into()
            );
        }
        // Nothing else tells it from another: what is as long as one that was counted would be taken for that.
        if settings.name.is_none() {
            return Err("the standard input needs a --name of its own".into());
        }
    }
    // From the beginning: one that is told to stop before it has connected ends as others do.
    let stop = settings.follow.then(stop_signals).transpose()?;
    let counters = settings.target.counters().await?;
    let mut logs = Logs::new(&settings, &counters)?;
    if let Some(stop) = stop {
        logs.follow(&settings.files, stop).await?;
        logs.close().await;
    } else {
        for file in &settings.files {
            logs.count(file).await.map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    let summary = Summary::new(&counters.sources(), logs.already_counted, began.elapsed());
    summary.warn();
    writeln!(stdout(), "{}", serde_json::to_string(&summary)?)?;
    Ok(())
}

/// The signals that tell the program to stop.
fn stop_signals() -> io::Result<[Signal; 2]> {
    Ok([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?])
}

/// The logs of one name.
struct Logs {
    sources: Sources,
    layer: AccessCounterLayer,
    format: Option<Format>,
    name: String,
    /// The key of fingerprints, under which logs are known again.
    key: VisitorKey,
    already_counted: u64,
    /// The sources of the logs that are followed.
    open: HashMap<Fingerprint, Source>,
}

impl Logs {
    fn new(settings: &Settings, counters: &Counters) -> Result<Self, Box<dyn Error>> {
        let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(settings.trust_hops);
        let layer = settings.target.layer(counters, client)?;
        // Not a secret of this process, which another one would not have.
        let key =
            settings.target.secret.as_ref().map_or(VisitorKey::new([0; 16]), |secret| secret.key("log"));
        let format = settings.format.clone();
        let name = settings.name.as_deref().unwrap_or(NAME).to_owned();
        let (sources, open) = (counters.sources(), HashMap::new());
        Ok(Self { sources, layer, format, name, key, already_counted: 0, open })
    }

    async fn count(&mut self, file: &Path) -> Result<(), Box<dyn Error>> {
        if file == Path::new(INPUT) {
            return self.count_input().await;
        }
        let Some(fingerprint) = Fingerprint::read(LogFile::open(file)?, self.key)? else {
            return Ok(());
        };
        let mut import = self.import(|| LogFile::open(file))?;
        let name = self.source(&fingerprint.to_string())?;
        self.skip(&name, LogFile::open(file)?).await?;
        let is_compressed = LogFile::open(file)?.is_compressed();
        let bar = progress::reading(file, is_compressed)?;
        let open = |position| {
            let mut log = LogFile::open(file)?;
            bar.set_position(position);
            let is_there = log.skip_to(position)?;
            let lines = Lines::new(bar.wrap_read(log), position);
            Ok(is_there.then(|| if is_compressed { lines.finished() } else { lines }))
        };
        let end = import.count(name, open).await?;
        bar.finish_and_clear();
        // A server may be about to write the rest of it.
        let length = std::fs::metadata(file)?.len();
        if !is_compressed && end.is_some_and(|end| end < length) {
            tracing::warn!(file = %file.display(), "the last line has no end yet, and is not counted");
        }
        Ok(())
    }

    async fn count_input(&mut self) -> Result<(), Box<dyn Error>> {
        let format = self.format.clone().ok_or("the standard input needs a --format")?;
        let mut import = Import::new(self.sources.clone(), format, self.layer.log_counter());
        let name = self.source("stdin")?;
        let mut already_counted = 0;
        let mut is_first = true;
        let open = |position| {
            if !std::mem::take(&mut is_first) {
                return Err(io::Error::other("another import is ahead, and this input cannot be read again"));
            }
            already_counted = lines(stdin().take(position))?;
            Ok(Some(Lines::new(stdin(), position).finished()))
        };
        import.count(name, open).await?;
        self.already_counted += already_counted;
        Ok(())
    }

    /// Counts what the files have and what is added to them, until the program is told to stop.
    async fn follow(
        &mut self,
        files: &[PathBuf],
        [mut interrupt, mut terminate]: [Signal; 2],
    ) -> Result<(), Box<dyn Error>> {
        let mut followers: Vec<_> = files.iter().map(|file| (Follower::new(file, self.key), None)).collect();
        let mut checked = Instant::now();
        loop {
            for ((follower, import), file) in followers.iter_mut().zip(files) {
                let grown = follower.poll().map_err(|error| format!("{}: {error}", file.display()))?;
                for grown in grown {
                    let counted = tokio::select! {
                        counted = self.count_grown(import, &grown) => counted,
                        _ = interrupt.recv() => return Ok(()),
                        _ = terminate.recv() => return Ok(()),
                    };
                    if let Err(error) = counted {
                        tracing::warn!(%error, file = %grown.path().display(), "a log waits");
                        follower.again(grown.fingerprint());
                    }
                }
            }
            if checked.elapsed() >= CHECK {
                tokio::select! {
                    () = self.check(&mut followers) => {}
                    _ = interrupt.recv() => return Ok(()),
                    _ = terminate.recv() => return Ok(()),
                }
                checked = Instant::now();
            }
            tokio::select! {
                () = sleep(POLL) => {}
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
            }
        }
    }

    async fn count_grown(
        &mut self,
        import: &mut Option<Import>,
        grown: &Grown,
    ) -> Result<(), Box<dyn Error>> {
        let import = match import {
            Some(import) => import,
            None => import.insert(self.import(|| LogFile::open(grown.path()))?),
        };
        let name = self.source(&grown.fingerprint().to_string())?;
        let source = match self.open.entry(grown.fingerprint()) {
            Entry::Occupied(source) => source.into_mut(),
            Entry::Vacant(place) => place.insert(self.sources.open(name).await?),
        };
        import.count_into(source, |position| grown.lines(position)).await?;
        Ok(())
    }

    /// Asks the store whether it still has what was counted, and lets what it has lost be counted again.
    async fn check(&mut self, followers: &mut [(Follower, Option<Import>)]) {
        self.open.retain(|log, _| followers.iter().any(|(follower, _)| follower.has(*log)));
        for (log, source) in &mut self.open {
            match source.check().await {
                Ok(Commit::Done) => {}
                Ok(Commit::Moved) => {
                    tracing::info!(source = %source.name(), position = source.position(), "the store is at another position");
                    followers.iter_mut().for_each(|(follower, _)| follower.again(*log));
                }
                // Those of the others are asked about when it is back.
                Err(error) => return tracing::warn!(%error, "the store does not say what it has counted"),
            }
        }
    }

    /// Counts what was read when the program was told to stop.
    async fn close(&mut self) {
        let closing = async {
            for source in self.open.values_mut() {
                // Where another import is ahead, it goes on from there.
                while source.close().await.is_err() {
                    sleep(PAUSE).await;
                }
            }
        };
        if timeout(CLOSE, closing).await.is_err() {
            tracing::warn!("the store does not take what was read last: the next import reads it again");
        }
    }

    fn import<R: Read>(&self, open: impl Fn() -> io::Result<R>) -> Result<Import, Box<dyn Error>> {
        let format = match &self.format {
            Some(format) => format.clone(),
            None => {
                let mut beginning = Vec::new();
                open()?.take(BEGINNING).read_to_end(&mut beginning)?;
                Format::detect(&beginning)?
            }
        };
        Ok(Import::new(self.sources.clone(), format, self.layer.log_counter()))
    }

    fn source(&self, log: &str) -> Result<SourceName, Box<dyn Error>> {
        Ok(format!("{}:{log}", self.name).parse()?)
    }

    /// Counts the lines that the store has before this import begins.
    async fn skip(&mut self, name: &SourceName, log: impl Read) -> Result<(), Box<dyn Error>> {
        let position = self.sources.open(name.clone()).await?.position();
        self.already_counted += lines(log.take(position))?;
        Ok(())
    }
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
