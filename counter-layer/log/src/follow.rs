//! Log files that grow and are rotated.

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

/// Finds new lines of a log, including rotated files.
///
/// [`poll`](Self::poll) lists all files that start with the same name: `access.log`, `access.log.1`,
/// `access.log.2.gz`, `access.log-20240501`. These are identified by a [`Fingerprint`]. The log can thus be
/// renamed, recreated, copied and truncated, or compressed, any number of times, even if the process is not
/// running, but lines will still be read exactly once. With `copytruncate`, lines that are written between
/// the copy and the truncation will be lost, because no file contains these.
///
/// The follower keeps the latest 64 files open. If a file is deleted too early, e.g. during an outage of the
/// store, we can thus still read it to the end. The disk space will be freed afterwards.
///
/// The follower does not store positions, because the counter store already contains these. It does not spawn
/// tasks or wait. You can poll as often as you like, but must do so on a thread that may block.
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
///     let from = 4; // the stored position of the source with this fingerprint
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
    /// Deleted files, and whether the next poll should return them.
    gone: Vec<(Grown, bool)>,
}

/// The state of a file at the latest poll.
#[derive(Debug)]
struct Known {
    /// `None` if the file must be read again.
    version: Option<FileVersion>,
    fingerprint: Option<Fingerprint>,
    length: u64,
    file: Option<Arc<File>>,
}

/// A part of a log, in a file that is new or has changed since the previous poll.
#[derive(Clone, Debug)]
pub struct Grown {
    path: PathBuf,
    fingerprint: Fingerprint,
    length: u64,
    is_gone: bool,
    /// Kept open in case the file is deleted.
    file: Option<Arc<File>>,
}

/// Metadata that changes whenever the file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    length: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// The content of a log file.
///
/// For a compressed file, this is the decompressed content. Reads end at the end of the file, or earlier if
/// the file was truncated and now starts with a different line.
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

/// The magic number of gzip files (RFC 1952).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Files that we can't read: the magic number, the kind of file, and the command that writes the text.
const UNREADABLE: [(&[u8], &str, &str); 6] = [
    (b"BZh", "compressed with bzip2", "bzcat"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "compressed with xz", "xzcat"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "compressed with zstd", "zstdcat"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (&[0xff, 0xfe], "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (&[0xfe, 0xff], "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
];

/// The maximum number of open files.
const MAX_OPEN: usize = 64;

impl Follower {
    /// Creates a follower for this log file. The file does not need to exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), known: HashMap::new(), gone: Vec::new() }
    }

    /// Returns the parts of the log that are new or have grown since the previous poll, from old to new. The
    /// initial poll returns all parts.
    ///
    /// A part may exist in two files, e.g. while it is being copied or compressed. In this case, both are
    /// returned. If a file can't be read, e.g. because it is deleted or incomplete, the next poll will try
    /// again.
    ///
    /// If the file of a part was deleted, the part is returned a final time; see [`Grown::is_gone`].
    ///
    /// # Errors
    /// Fails if the folder can't be listed.
    pub fn poll(&mut self) -> io::Result<Vec<Grown>> {
        let mut grown = Vec::new();
        let mut files = list_files(&self.path)?;
        let mut before = std::mem::take(&mut self.known);
        // The names of numbered rotations do not sort by age.
        files.sort_by_key(|(_, version)| version.modified);
        let first_open = files.len().saturating_sub(MAX_OPEN);
        for (index, (path, version)) in files.into_iter().enumerate() {
            if let Some(mut known) = before.remove(&path) {
                if known.version == Some(version) {
                    known.file.take_if(|_| index < first_open);
                    self.known.insert(path, known);
                    continue;
                }
                // The previous content might have moved to a different file, or may be deleted.
                before.insert(path.clone(), known);
            }
            let Ok((file, fingerprint)) = identify(&path) else {
                if let Some(known) = before.remove(&path) {
                    self.known.insert(path, Known { version: None, ..known });
                }
                continue;
            };
            let file = Some(Arc::new(file)).filter(|_| index >= first_open);
            let length = version.length;
            if let Some(fingerprint) = fingerprint {
                let (path, file) = (path.clone(), file.clone());
                grown.push(Grown { path, fingerprint, length, is_gone: false, file });
            }
            self.known.insert(path, Known { version: Some(version), fingerprint, length, file });
        }
        let gone = self.find_gone(before);
        Ok(gone.into_iter().chain(grown).collect())
    }

    /// Returns the parts whose file has disappeared.
    fn find_gone(&mut self, before: HashMap<PathBuf, Known>) -> Vec<Grown> {
        // We can drop parts that the caller did not request again, because these have been read.
        let known = &self.known;
        let is_back = |gone: &Grown| known.values().any(|known| known.fingerprint == Some(gone.fingerprint));
        self.gone.retain(|(gone, is_due)| *is_due && !is_back(gone));
        for (path, Known { fingerprint, length, file, .. }) in before {
            let Some(fingerprint) = fingerprint else { continue };
            let is_listed = self.gone.iter().any(|(grown, _)| grown.fingerprint == fingerprint);
            if !is_listed && !self.has(fingerprint) {
                self.gone.push((Grown { path, fingerprint, length, is_gone: true, file }, true));
            }
        }
        let open = self.gone.len().saturating_sub(MAX_OPEN);
        self.gone[..open].iter_mut().for_each(|(grown, _)| grown.file = None);
        self.gone.iter_mut().for_each(|(_, is_due)| *is_due = false);
        self.gone.iter().map(|(grown, _)| grown.clone()).collect()
    }

    /// Makes the next poll return a part of the log again. You must call this if you could not read the whole
    /// part, or if the store returned to an older state.
    pub fn again(&mut self, fingerprint: Fingerprint) {
        for known in self.known.values_mut().filter(|known| known.fingerprint == Some(fingerprint)) {
            known.version = None;
        }
        for (_, is_due) in self.gone.iter_mut().filter(|(gone, _)| gone.fingerprint == fingerprint) {
            *is_due = true;
        }
    }

    /// Returns whether the latest poll found a file with this part of the log.
    #[must_use]
    pub fn has(&self, fingerprint: Fingerprint) -> bool {
        self.known.values().any(|known| known.fingerprint == Some(fingerprint))
    }
}

impl Grown {
    /// Returns the fingerprint of this part of the log.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file was deleted. If we still have it open, you can read the lines once more, but
    /// otherwise any unread lines are lost.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns the file length in bytes. For a compressed file, this is the compressed length.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Returns the lines starting at this position, or `None` if the file was deleted, is shorter, or now
    /// starts with a different line. In this case, the part might have moved to a different file, and the
    /// next poll will find it.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn lines(&self, position: u64) -> io::Result<Option<Lines<LogFile>>> {
        Ok(self.file_at(position)?.map(|file| file.into_lines(position)))
    }

    /// Opens the file at the start. Returns `None` under the same conditions as [`lines`](Self::lines).
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn open(&self) -> io::Result<Option<LogFile>> {
        self.file_at(0)
    }

    fn file_at(&self, position: u64) -> io::Result<Option<LogFile>> {
        // We don't need to check compressed files again.
        let at = |file| {
            let mut file = LogFile::of(self.path.clone(), file)?;
            file.expected = Some(self.fingerprint);
            let is_valid = file.is_as_expected()? && file.skip_to(position)?;
            io::Result::Ok(is_valid.then_some(file))
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
    /// Opens a file and detects if it is compressed. A compressed file will be read completely, so that lines
    /// of a damaged or incomplete file don't count.
    ///
    /// # Errors
    /// Fails if the file can't be opened or read, is damaged, or is compressed in a different way.
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

    /// Opens the file again at the start, without checking it.
    ///
    /// # Errors
    /// Fails if the file can't be opened or read.
    pub fn reopen(&self) -> io::Result<Self> {
        Self::of(self.path.clone(), File::open(&self.path)?)
    }

    fn of(path: PathBuf, mut file: File) -> io::Result<Self> {
        file.rewind()?;
        let mut start = Vec::new();
        (&mut file).take(8).read_to_end(&mut start)?;
        file.rewind()?;
        if let Some((_, kind, command)) = UNREADABLE.iter().find(|(magic, ..)| start.starts_with(magic)) {
            let message =
                format!("the file is {kind}: import the output of `{command}` from the standard input");
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let content = if start.starts_with(GZIP) {
            Content::Gzip(Box::new(MultiGzDecoder::new(file)))
        } else {
            Content::Plain(file)
        };
        Ok(Self { path, content, expected: None })
    }

    /// Returns `true` for a compressed file, i.e. a file that does not grow.
    #[must_use]
    pub const fn is_compressed(&self) -> bool {
        matches!(self.content, Content::Gzip(_))
    }

    /// Returns the lines starting at this position. Compressed files are [finished](Lines::finished).
    pub fn into_lines(self, position: u64) -> Lines<Self> {
        let is_finished = self.is_compressed();
        let lines = Lines::new(self, position);
        if is_finished { lines.finished() } else { lines }
    }

    /// Moves forward to a position. Returns `false` if the file is shorter.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        match &mut self.content {
            Content::Plain(file) => {
                file.seek(SeekFrom::Start(position))?;
                Ok(file.metadata()?.len() >= position)
            }
            Content::Gzip(_) => Ok(io::copy(&mut self.take(position), &mut io::sink())? == position),
        }
    }

    /// Returns whether the file still starts with the expected line. We assume that compressed files don't
    /// change.
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
        // This must be checked after reading, because the file may have been truncated before the read.
        if read > 0 && !self.is_as_expected()? {
            return Ok(0);
        }
        Ok(read)
    }
}

impl FileVersion {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { length: metadata.len(), modified: metadata.modified().ok(), inode }
    }
}

/// Opens a file and computes the fingerprint.
fn identify(path: &Path) -> io::Result<(File, Option<Fingerprint>)> {
    let file = File::open(path)?;
    let fingerprint = Fingerprint::read(LogFile::checked(path.to_owned(), file.try_clone()?)?)?;
    Ok((file, fingerprint))
}

/// Lists the files of a log, i.e. the file at this path and all rotated files.
fn list_files(path: &Path) -> io::Result<Vec<(PathBuf, FileVersion)>> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // The file might have been deleted since, or may be a symbolic link.
        if is_log_file(name, &entry.file_name())
            && let Ok(metadata) = fs::metadata(entry.path())
            && metadata.is_file()
        {
            files.push((entry.path(), FileVersion::of(&metadata)));
        }
    }
    Ok(files)
}

/// Returns `true` if the name is the log name, optionally followed by a number, a date or `old`, and
/// optionally by `gz`.
fn is_log_file(log: &OsStr, name: &OsStr) -> bool {
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
    fn rotated_files_are_recognized_by_name() {
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
            assert_eq!(is_log_file(OsStr::new("access.log"), OsStr::new(name)), expected, "{name}");
        }
    }
}
