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

/// Finds what has grown of a log in a file and in what its rotations left behind.
///
/// Each [`poll`](Self::poll) looks at the file and at those beside it whose names go on behind its name:
/// `access.log`, `access.log.1`, `access.log.2.gz`, `access.log-20240501`. Each is known by its [`Fingerprint`], and so
/// it does not matter whether a rotation renames, creates anew, copies and truncates, or compresses, nor how many
/// rotations there were since the last poll or before the process started: what was read of a part up to a position
/// is never read again, and the rest is read from wherever it is now. Lines that are written between the copy and the
/// truncation of `copytruncate` are in no file, and are lost to everything.
///
/// It keeps the latest 64 files open, so that a file that is deleted before it was read, as in an outage of the store, can
/// still be read to its end. Its space on the disk is free again when it was.
///
/// It keeps no positions: the store of the counters has them. It neither spawns nor waits; the caller polls as often as
/// it likes, on a thread that may block.
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

/// A file as it was when it was last looked at.
#[derive(Debug)]
struct Known {
    /// `None` if it has to be looked at again.
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

/// What a file looks like while it does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    length: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// The bytes of a log from a file.
///
/// Of a file that is compressed they are those that were compressed. They end where the file ends, and where it no
/// longer begins with the line that it began with: somebody has truncated it then.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    content: Content,
    /// The fingerprint that the file has to have.
    expected: Option<Fingerprint>,
}

#[derive(Debug)]
enum Content {
    Plain(File),
    Gzip(Box<MultiGzDecoder<File>>),
}

/// The bytes that a file of gzip begins with (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The number of files that are kept open.
const MAX_OPEN: usize = 64;

impl Follower {
    /// Creates a follower of the log in this file, which need not exist yet; its parts are known by their fingerprints.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), known: HashMap::new(), gone: Vec::new() }
    }

    /// Returns the parts of the log that are new or have grown since the last poll, the oldest first; at the first
    /// poll all that are there.
    ///
    /// A part that is there twice, as while it is being copied or compressed, is returned once for each file. A file
    /// that cannot be read, perhaps because it is gone or only half compressed, is looked at again by the next poll.
    ///
    /// A part that is in no file any more is returned once: see [`Grown::is_gone`].
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn poll(&mut self) -> io::Result<Vec<Grown>> {
        let mut grown = Vec::new();
        let mut files = files_of(&self.path)?;
        let mut before = std::mem::take(&mut self.known);
        // In a rotation by numbers the order of names says nothing.
        files.sort_by_key(|(_, look)| look.modified);
        let first_open = files.len().saturating_sub(MAX_OPEN);
        for (place, (path, look)) in files.into_iter().enumerate() {
            if let Some(mut known) = before.remove(&path) {
                if known.look == Some(look) {
                    known.file.take_if(|_| place < first_open);
                    self.known.insert(path, known);
                    continue;
                }
                // What was there before may be elsewhere now, or gone.
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

    /// Returns the parts that were in these files and are in none any more.
    fn find_gone(&mut self, before: HashMap<PathBuf, Known>) -> Vec<Grown> {
        // Those that the caller did not ask for again were read.
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

    /// Lets the next poll find a part of the log again: for a caller that could not read it to its end, or whose store
    /// has gone back to an older state.
    pub fn again(&mut self, fingerprint: Fingerprint) {
        for known in self.known.values_mut().filter(|known| known.fingerprint == Some(fingerprint)) {
            known.look = None;
        }
        for (_, is_due) in self.gone.iter_mut().filter(|(gone, _)| gone.fingerprint == fingerprint) {
            *is_due = true;
        }
    }

    /// Returns whether the last poll saw this part of the log in a file.
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

    /// Returns the file in which it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the part was in a file before, and is in none any more. If the file was still open, its lines can be
    /// read once more; otherwise those beyond the position that was read are lost.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns the length of the file when it was found, in bytes; of a compressed file, of what is compressed.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Returns its lines from this position on; `None` where the file has another beginning by now, or is gone, or is
    /// not so long. Then the part may be in another file, which another poll finds.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lines(&self, position: u64) -> io::Result<Option<Lines<LogFile>>> {
        Ok(self.file_at(position)?.map(|file| file.into_lines(position)))
    }

    /// Opens the file at its beginning; `None` as for [`lines`](Self::lines).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(&self) -> io::Result<Option<LogFile>> {
        self.file_at(0)
    }

    fn file_at(&self, position: u64) -> io::Result<Option<LogFile>> {
        // A compressed file was checked when it was found.
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
    /// Opens a file, and looks at its first bytes whether it is compressed. A compressed file is read to its end, so that
    /// no line of a damaged or incomplete one is counted.
    ///
    /// # Errors
    /// When it cannot be opened or read, or is damaged.
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

    /// Opens the file of this path again, at its beginning, without reading it to its end first.
    ///
    /// # Errors
    /// When it cannot be opened or read.
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

    /// Returns `true` for a file that is compressed, which nothing more is written to.
    #[must_use]
    pub const fn is_compressed(&self) -> bool {
        matches!(self.content, Content::Gzip(_))
    }

    /// Returns the lines from here on, of which the first is at this position. Those of a file that is compressed are
    /// [finished](Lines::finished).
    pub fn into_lines(self, position: u64) -> Lines<Self> {
        let is_finished = self.is_compressed();
        let lines = Lines::new(self, position);
        if is_finished { lines.finished() } else { lines }
    }

    /// Moves on to a position; `false` where the file is not so long.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        match &mut self.content {
            Content::Plain(file) => {
                file.seek(SeekFrom::Start(position))?;
                Ok(file.metadata()?.len() >= position)
            }
            Content::Gzip(_) => Ok(io::copy(&mut self.take(position), &mut io::sink())? == position),
        }
    }

    /// Returns whether the file begins with what it has to begin with. One that is compressed does not change.
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
        // Asked after it was read: what was read may be of what has been written since the file was truncated.
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

/// Opens a file, and returns its fingerprint.
fn identify(path: &Path) -> io::Result<(File, Option<Fingerprint>)> {
    let file = File::open(path)?;
    let fingerprint = Fingerprint::read(LogFile::checked(path.to_owned(), file.try_clone()?)?)?;
    Ok((file, fingerprint))
}

/// The files of a log: the one at its path, and those whose names go on behind its name.
fn files_of(path: &Path) -> io::Result<Vec<(PathBuf, Look)>> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be gone, or may be a link to one.
        if is_of(name, &entry.file_name())
            && let Ok(metadata) = fs::metadata(entry.path())
            && metadata.is_file()
        {
            files.push((entry.path(), Look::of(&metadata)));
        }
    }
    Ok(files)
}

/// Returns `true` for a name that rotations give: that of the log, with a number, a date, or `old` behind it, and
/// perhaps `gz` behind that.
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
