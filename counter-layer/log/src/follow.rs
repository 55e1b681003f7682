//! Logs in files that grow and are rotated.

pub(super) mod fingerprint;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use flate2::read::MultiGzDecoder;

use crate::lines::Lines;
use fingerprint::Fingerprint;

/// Finds new lines of a log, in the file itself and in its rotated files.
///
/// Each [`poll`](Self::poll) lists the file and all files that start with the same name: `access.log`,
/// `access.log.1`, `access.log.2.gz`, `access.log-20240501`. A [`Fingerprint`] identifies each of them. So the log
/// can be renamed, recreated, copied and truncated, or compressed, any number of times between two polls or before
/// the process started: each line is still read once. Lines that are written between the copy and the truncation of
/// `copytruncate` are in no file, and are lost.
///
/// The follower keeps the latest 64 files open. If a file is deleted before it was read, for example during an outage
/// of the store, it can still be read to the end. Then its disk space is freed.
///
/// The follower does not store positions, because the store of the counters has them. It neither spawns tasks nor
/// waits. Poll as often as you like, on a thread that may block.
///
/// ```
/// use counter_log::Follower;
///
/// # let folder = std::env::temp_dir().join(format!("follower-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("access.log");
/// std::fs::write(&path, "one\ntwo\n")?;
/// let mut follower = Follower::new(&path);
/// for grown in follower.poll()? {
///     let from = 4; // what the store says of the source with this fingerprint
///     let Some(mut lines) = grown.lines(from)? else { continue };
///     assert_eq!(lines.next()?.map(|line| (line.range, line.text)), Some((4..8, &b"two\n"[..])));
///     assert!(lines.next()?.is_none());
/// }
/// assert!(follower.poll()?.is_empty());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    known: HashMap<PathBuf, Known>,
    /// Files that are gone, and whether the next poll returns them.
    gone: Vec<(Grown, bool)>,
}

/// A file at the time of the last poll.
#[derive(Debug)]
struct Known {
    /// `None` if the file has to be read again.
    look: Option<Look>,
    fingerprint: Option<Fingerprint>,
    length: u64,
    file: Option<Arc<File>>,
}

/// A part of a log, in a file that is new or has changed since the last poll.
#[derive(Clone, Debug)]
pub struct Grown {
    path: PathBuf,
    fingerprint: Fingerprint,
    length: u64,
    is_gone: bool,
    /// The file, in case it is deleted.
    file: Option<Arc<File>>,
}

/// The metadata that stays the same while a file does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    length: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// The bytes of a log in a file.
///
/// For a compressed file, these are the decompressed bytes. They end at the end of the file, and earlier if the file
/// was truncated and starts with another line now.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    content: Content,
    /// The expected fingerprint.
    expected: Option<Fingerprint>,
}

#[derive(Debug)]
enum Content {
    Plain(File),
    Gzip(Box<MultiGzDecoder<File>>),
}

/// The first bytes of a gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The maximum number of open files.
const MAX_OPEN: usize = 64;

impl Follower {
    /// Creates a follower of the log in this file. The file need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), known: HashMap::new(), gone: Vec::new() }
    }

    /// Returns the parts of the log that are new or have grown since the last poll, oldest first. The first poll
    /// returns all parts.
    ///
    /// While a part is copied or compressed, it can exist twice and is returned once for each file. If a file cannot
    /// be read, for example because it is deleted or incomplete, the next poll tries again.
    ///
    /// A part without a file is returned one last time: see [`Grown::is_gone`].
    ///
    /// # Errors
    /// Fails if the folder cannot be listed.
    pub fn poll(&mut self) -> io::Result<Vec<Grown>> {
        let mut grown = Vec::new();
        let mut files = files_of(&self.path)?;
        let mut before = std::mem::take(&mut self.known);
        // Numbered rotations are not in the order of their names.
        files.sort_by_key(|(_, look)| look.modified);
        let first_open = files.len().saturating_sub(MAX_OPEN);
        for (place, (path, look)) in files.into_iter().enumerate() {
            if let Some(mut known) = before.remove(&path) {
                if known.look == Some(look) {
                    known.file.take_if(|_| place < first_open);
                    self.known.insert(path, known);
                    continue;
                }
                // The previous content may be in another file now, or deleted.
                before.insert(path.clone(), known);
            }
            let Ok((file, fingerprint)) = identify(&path) else {
                if let Some(known) = before.remove(&path) {
                    self.known.insert(path, Known { look: None, ..known });
                }
                continue;
            };
            let file = Some(Arc::new(file)).filter(|_| place >= first_open);
            let length = look.length;
            if let Some(fingerprint) = fingerprint {
                let (path, file) = (path.clone(), file.clone());
                grown.push(Grown { path, fingerprint, length, is_gone: false, file });
            }
            self.known.insert(path, Known { look: Some(look), fingerprint, length, file });
        }
        let gone = self.find_gone(before);
        Ok(gone.into_iter().chain(grown).collect())
    }

    /// Returns the parts that were in a file before and are in no file now.
    fn find_gone(&mut self, before: HashMap<PathBuf, Known>) -> Vec<Grown> {
        // All other parts were read, because the caller did not request them again.
        let known = &self.known;
        let is_back = |gone: &Grown| known.values().any(|known| known.fingerprint == Some(gone.fingerprint));
        self.gone.retain(|(gone, is_due)| *is_due && !is_back(gone));
        for (path, Known { fingerprint, length, file, .. }) in before {
            let Some(fingerprint) = fingerprint else { continue };
            let is_kept = self.gone.iter().any(|(grown, _)| grown.fingerprint == fingerprint);
            if !is_kept && !self.has(fingerprint) {
                self.gone.push((Grown { path, fingerprint, length, is_gone: true, file }, true));
            }
        }
        let open = self.gone.len().saturating_sub(MAX_OPEN);
        self.gone[..open].iter_mut().for_each(|(grown, _)| grown.file = None);
        self.gone.iter_mut().for_each(|(_, is_due)| *is_due = false);
        self.gone.iter().map(|(grown, _)| grown.clone()).collect()
    }

    /// Makes the next poll return a part of the log again. Call it if the part could not be read completely, or if
    /// the store returned to an older state.
    pub fn again(&mut self, fingerprint: Fingerprint) {
        for known in self.known.values_mut().filter(|known| known.fingerprint == Some(fingerprint)) {
            known.look = None;
        }
        for (_, is_due) in self.gone.iter_mut().filter(|(gone, _)| gone.fingerprint == fingerprint) {
            *is_due = true;
        }
    }

    /// Returns whether the last poll found this part of the log in a file.
    #[must_use]
    pub fn has(&self, fingerprint: Fingerprint) -> bool {
        self.known.values().any(|known| known.fingerprint == Some(fingerprint))
    }
}

impl Grown {
    /// Returns the identity of this part of the log.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file of this part was deleted. If the file is still open, its lines can be read once more;
    /// otherwise the lines that were not read yet are lost.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns the length of the file in bytes. For a compressed file, this is the compressed length.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Returns the lines from this position on. Returns `None` if the file was deleted, is shorter, or starts with
    /// another line now. Then the part may be in another file, and another poll finds it.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn lines(&self, position: u64) -> io::Result<Option<Lines<LogFile>>> {
        Ok(self.file_at(position)?.map(|file| file.into_lines(position)))
    }

    /// Opens the file at its beginning. Returns `None` as [`lines`](Self::lines) does.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn open(&self) -> io::Result<Option<LogFile>> {
        self.file_at(0)
    }

    fn file_at(&self, position: u64) -> io::Result<Option<LogFile>> {
        // A poll has already checked a compressed file.
        let at = |file| {
            let mut file = LogFile::of(self.path.clone(), file)?;
            file.expected = Some(self.fingerprint);
            let is_there = file.is_as_expected()? && file.skip_to(position)?;
            io::Result::Ok(is_there.then_some(file))
        };
        let found = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => at(file?)?,
        };
        match (found, &self.file) {
            (None, Some(file)) => at(file.try_clone()?),
            (found, _) => Ok(found),
        }
    }
}

impl LogFile {
    /// Opens a file and detects from its first bytes if it is compressed. A compressed file is read completely, so
    /// that no line of a damaged or incomplete file counts.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::checked(path.as_ref().to_owned(), File::open(&path)?)
    }

    fn checked(path: PathBuf, file: File) -> io::Result<Self> {
        let mut log = Self::of(path.clone(), file.try_clone()?)?;
        if !log.is_compressed() {
            return Ok(log);
        }
        io::copy(&mut log, &mut io::sink()).map_err(|error| {
            io::Error::new(error.kind(), format!("the compressed file is damaged or incomplete ({error})"))
        })?;
        Self::of(path, file)
    }

    /// Opens the file again at its beginning, without checking it completely.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read.
    pub fn reopen(&self) -> io::Result<Self> {
        Self::of(self.path.clone(), File::open(&self.path)?)
    }

    fn of(path: PathBuf, mut file: File) -> io::Result<Self> {
        file.rewind()?;
        let mut begin = [0; GZIP.len()];
        let is_gzip = match file.read_exact(&mut begin) {
            Ok(()) => begin == GZIP,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(error),
        };
        file.rewind()?;
        let content =
            if is_gzip { Content::Gzip(Box::new(MultiGzDecoder::new(file))) } else { Content::Plain(file) };
        Ok(Self { path, content, expected: None })
    }

    /// Returns `true` for a compressed file, which does not grow.
    #[must_use]
    pub const fn is_compressed(&self) -> bool {
        matches!(self.content, Content::Gzip(_))
    }

    /// Returns the lines from this position on. The lines of a compressed file are [finished](Lines::finished).
    pub fn into_lines(self, position: u64) -> Lines<Self> {
        let is_finished = self.is_compressed();
        let lines = Lines::new(self, position);
        if is_finished { lines.finished() } else { lines }
    }

    /// Moves forward to a position. Returns `false` if the file is shorter.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        match &mut self.content {
            Content::Plain(file) => {
                file.seek(SeekFrom::Start(position))?;
                Ok(file.metadata()?.len() >= position)
            }
            Content::Gzip(_) => Ok(io::copy(&mut self.take(position), &mut io::sink())? == position),
        }
    }

    /// Returns whether the file starts with the expected line. A compressed file does not change.
    fn is_as_expected(&mut self) -> io::Result<bool> {
        let (Some(fingerprint), Content::Plain(file)) = (self.expected, &mut self.content) else {
            return Ok(true);
        };
        let position = file.stream_position()?;
        file.rewind()?;
        let found = Fingerprint::read(&mut *file)?;
        file.seek(SeekFrom::Start(position))?;
        Ok(found == Some(fingerprint))
    }
}

impl Read for LogFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.content {
            Content::Plain(file) => file.read(buffer)?,
            Content::Gzip(file) => file.read(buffer)?,
        };
        // After reading, because the data may have been written after the file was truncated.
        if read > 0 && !self.is_as_expected()? {
            return Ok(0);
        }
        Ok(read)
    }
}

impl Look {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { length: metadata.len(), modified: metadata.modified().ok(), inode }
    }
}

/// Opens a file and returns its fingerprint.
fn identify(path: &Path) -> io::Result<(File, Option<Fingerprint>)> {
    let file = File::open(path)?;
    let fingerprint = Fingerprint::read(LogFile::checked(path.to_owned(), file.try_clone()?)?)?;
    Ok((file, fingerprint))
}

/// Lists the files of a log: the file at its path, and all files whose names start with its name.
fn files_of(path: &Path) -> io::Result<Vec<(PathBuf, Look)>> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be deleted meanwhile, or be a link.
        if is_of(name, &entry.file_name())
            && let Ok(metadata) = fs::metadata(entry.path())
            && metadata.is_file()
        {
            files.push((entry.path(), Look::of(&metadata)));
        }
    }
    Ok(files)
}

/// Returns `true` for the name of a rotated file: the name of the log with a number, a date, or `old` after it, and
/// optionally `gz` after that.
fn is_of(log: &OsStr, name: &OsStr) -> bool {
    let Some(rest) = name.as_encoded_bytes().strip_prefix(log.as_encoded_bytes()) else { return false };
    let rest = rest.strip_suffix(b".gz").unwrap_or(rest);
    let is_date = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_digit() || b"-_.T".contains(byte));
    match rest {
        [] | b".old" => true,
        [b'.' | b'-' | b'_', rest @ ..] => !rest.is_empty() && is_date(rest),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_log_are_known_by_their_names() {
        for (name, expected) in [
            ("access.log", true),
            ("access.log.1", true),
            ("access.log.12.gz", true),
            ("access.log.gz", true),
            ("access.log-20240501", true),
            ("access.log-2024-05-01_00.gz", true),
            ("access.log.old", true),
            ("access.log.", false),
            ("access.log.bak", false),
            ("access.log.swp", false),
            ("access.logs", false),
            ("access.log1", false),
            ("other_access.log", false),
            ("error.log", false),
        ] {
            assert_eq!(is_of(OsStr::new("access.log"), OsStr::new(name)), expected, "{name}");
        }
    }
}
