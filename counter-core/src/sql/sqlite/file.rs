//! Checks that the path of an SQLite database still leads to the file that has been opened.

use std::error::Error as StdError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use std::{fmt, io};

use fs4::fs_std::FileExt;
use tokio::time::Instant;

use crate::sql::failure::Failure;
use crate::sql::session::Location;

/// File name suffixes of the SQLite write-ahead log and the log index.
const LOG_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

/// The device and inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId(u64, u64);

/// An open SQLite database file.
///
/// SQLite will continue to use an open file even if it has been removed, moved or replaced. Commits succeed;
/// however, other processes can't see them, and they are lost with the last connection. Therefore we need to
/// compare the path with the open file before and after use.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    opened: Mutex<Opened>,
}

#[derive(Debug, Default)]
struct Opened {
    /// The open database file. `None` before the first connection, or if the database is not a file.
    database: Option<FileId>,
    /// The path with symbolic links resolved. SQLite stores the log in the same directory.
    target: PathBuf,
    /// The log and the index, if found since the first connection has been opened.
    log: [Option<FileId>; 2],
    missing_since: Option<Instant>,
}

/// The state of the path, compared with the open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    /// The open file, or any file if no connection has been opened yet.
    Opened,
    /// A different file.
    Replaced,
    /// The open file, but the log has been removed or replaced.
    LogReplaced,
    /// The file is missing or empty. Contains the time since this was first detected.
    Missing(Duration),
}

/// An error returned if the database file has been removed or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileError {
    /// The file was replaced during a call.
    ReplacedDuringCall(PathBuf),
    /// The file does not exist.
    Missing(PathBuf),
}

impl OpenedFile {
    pub(crate) fn new(path: &Path) -> Self {
        // SQLite also resolves a relative path when opening the file.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, opened: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `true` if the parent directory exists, i.e. the file can be created.
    pub(crate) fn has_directory(&self) -> bool {
        self.path.parent().is_some_and(Path::is_dir)
    }

    /// Compares the path with the open file. `is_connected` must be `true` if there are any connections to
    /// the file.
    ///
    /// This reads file metadata, but should not block on disk access because these entries are cached by the
    /// kernel.
    pub(crate) fn state(&self, is_connected: bool) -> PathState {
        let opened = &mut *self.opened();
        if !is_connected {
            // SQLite removes the log when closing the last connection.
            opened.log = [None; 2];
        }
        let found = identify(&self.path);
        let Some(database) = opened.database else {
            if let Ok((id, _)) = found {
                opened.open(id, &self.path);
            }
            return PathState::Opened;
        };
        match found {
            Ok((id, _)) if id == database => {
                opened.missing_since = None;
                let is_same = |(recorded, now): (&Option<FileId>, Option<FileId>)| {
                    recorded.is_none() || *recorded == now
                };
                let is_same = opened.log.iter().zip(opened.found_log()).all(is_same);
                if is_same { PathState::Opened } else { PathState::LogReplaced }
            }
            // An empty file is about to be written, e.g. by a program that restores a backup.
            Ok((_, length)) if length > 0 => PathState::Replaced,
            _ => PathState::Missing(opened.missing_since.get_or_insert_with(Instant::now).elapsed()),
        }
    }

    /// Checks that the path leads to the same file. This must be called after opening a connection, and after
    /// a commit.
    pub(crate) fn confirm(&self) -> Result<(), FileError> {
        let opened = &mut *self.opened();
        if opened.database.is_none() {
            match identify(&self.path) {
                Ok((id, _)) => opened.open(id, &self.path),
                // An in-memory database.
                Err(_) => return Ok(()),
            }
        }
        // Must be read before the path: if the path still leads to the open file, this log belongs to it.
        let log = opened.found_log();
        if !identify(&self.path).is_ok_and(|(id, _)| Some(id) == opened.database) {
            return Err(FileError::ReplacedDuringCall(self.path.clone()));
        }
        for (recorded, now) in opened.log.iter_mut().zip(log) {
            *recorded = recorded.or(now);
        }
        Ok(())
    }

    /// Removes the log of the open file. Otherwise SQLite would apply it to the new file.
    ///
    /// This must be called while there are open connections to the old file, so that the inode of the log
    /// can't be reused.
    ///
    /// # Errors
    /// Returns an error if another process is doing the same, or if the log can't be removed.
    pub(crate) fn remove_log(&self) -> io::Result<()> {
        let opened = self.opened();
        let Some(directory) = opened.target.parent().filter(|directory| directory.is_dir()) else {
            return Ok(());
        };
        // We need a lock because another process might remove the same log, and create a new log, between the
        // comparison and the removal.
        let directory = File::open(directory)?;
        if !directory.try_lock_exclusive()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for (suffix, recorded) in LOG_SUFFIXES.iter().zip(opened.log) {
            let path = with_suffix(&opened.target, suffix);
            if recorded.is_some() && identify(&path).ok().map(|(id, _)| id) == recorded {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Resets the state. This must only be called after all connections have been closed.
    pub(crate) fn forget(&self) {
        *self.opened() = Opened::default();
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().expect("the lock is never poisoned")
    }
}

impl Location for OpenedFile {
    fn confirm(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(Self::confirm(self)?)
    }
}

impl Opened {
    fn open(&mut self, id: FileId, path: &Path) {
        self.database = Some(id);
        self.target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    }

    fn found_log(&self) -> [Option<FileId>; 2] {
        LOG_SUFFIXES.map(|suffix| identify(&with_suffix(&self.target, suffix)).ok().map(|(id, _)| id))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Returns the file ID and length.
#[cfg(unix)]
fn identify(path: &Path) -> io::Result<(FileId, u64)> {
    use std::os::unix::fs::MetadataExt;

    let metadata = fs::metadata(path)?;
    Ok((FileId(metadata.dev(), metadata.ino()), metadata.len()))
}

/// Returns the file length, and the same ID for all files, because on platforms other than Unix, open files
/// can't be removed or replaced.
#[cfg(not(unix))]
fn identify(path: &Path) -> io::Result<(FileId, u64)> {
    Ok((FileId(0, 0), fs::metadata(path)?.len()))
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReplacedDuringCall(path) => {
                write!(f, "the database file {} was removed or replaced during the call", path.display())
            }
            Self::Missing(path) => write!(
                f,
                "the database file {} was removed while in use: restore it, or restart the process to start \
                 with an empty one",
                path.display()
            ),
        }
    }
}

impl StdError for FileError {}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::File(error.into())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Returns an empty folder.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("counter-file-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("the folder can be created");
        folder
    }

    fn write(path: &Path, content: &str) {
        fs::write(path, content).expect("the folder is writable");
    }

    #[test]
    fn a_removed_or_replaced_file_is_detected() {
        let folder = folder("replaced");
        let path = folder.join("counts.db");
        let file = OpenedFile::new(&path);
        assert_eq!((file.state(false), file.confirm()), (PathState::Opened, Ok(())), "it does not exist yet");
        write(&path, "one");
        assert_eq!((file.state(false), file.confirm()), (PathState::Opened, Ok(())));

        let other = folder.join("other");
        fs::rename(&path, &other).expect("the file exists");
        assert!(matches!(file.state(true), PathState::Missing(_)));
        assert_eq!(file.confirm(), Err(FileError::ReplacedDuringCall(path.clone())));
        write(&path, "");
        assert!(matches!(file.state(true), PathState::Missing(_)), "an empty file is not complete");
        write(&path, "two");
        assert_eq!(file.state(true), PathState::Replaced);
        fs::rename(&other, &path).expect("the file exists");
        assert_eq!((file.state(true), file.confirm()), (PathState::Opened, Ok(())));
        fs::remove_dir_all(folder).expect("the folder can be removed");
    }

    #[test]
    fn only_the_log_of_the_open_file_is_removed() {
        let folder = folder("log");
        let (path, log) = (folder.join("counts.db"), folder.join("counts.db-wal"));
        write(&path, "one");
        write(&log, "of one");
        let file = OpenedFile::new(&path);
        file.confirm().expect("it is the same file");
        // Keeps the inode from being reused.
        let _open = File::open(&log).expect("the log exists");

        fs::rename(&log, folder.join("moved")).expect("the log exists");
        write(&log, "of two");
        assert_eq!(file.state(true), PathState::LogReplaced);
        assert_eq!(file.state(false), PathState::Opened, "SQLite itself replaces the log when it is closed");
        file.remove_log().expect("there is nothing to remove");
        assert!(log.exists());

        file.confirm().expect("it is the same file");
        file.remove_log().expect("the log can be removed");
        assert!(!log.exists());
        fs::remove_dir_all(folder).expect("the folder can be removed");
    }
}
