//! The check that the path of a SQLite database still leads to the file that its connections opened.

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
use crate::sql::session::Place;

/// The suffixes of the write-ahead log and of its index.
const LOG_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

/// The device and the inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId(u64, u64);

/// A SQLite database file, as its connections opened it.
///
/// SQLite keeps using an open file after it was removed, moved or replaced. Commits succeed, but no other process can
/// see them, and they are lost with the last connection. So the path is compared with the opened file before and after
/// each use.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    opened: Mutex<Opened>,
}

#[derive(Debug, Default)]
struct Opened {
    /// `None` before the first connection, and for a database that is not a file.
    database: Option<FileId>,
    /// The path of the database without symbolic links: SQLite keeps the log beside it.
    target: PathBuf,
    /// The log and its index, as far as they were seen since there are connections.
    log: [Option<FileId>; 2],
    missing_since: Option<Instant>,
}

/// What the path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    /// The opened file, or a file that no connection has opened yet.
    Opened,
    /// Another file.
    Replaced,
    /// The opened file, but its log was removed or replaced.
    LogReplaced,
    /// No file, or an empty one, for this long.
    Missing(Duration),
}

/// An error of a SQLite database whose file is not the one that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileError {
    /// The file was replaced while a call used it.
    ReplacedDuringCall(PathBuf),
    /// The path leads to no file.
    Missing(PathBuf),
}

impl OpenedFile {
    pub(crate) fn new(path: &Path) -> Self {
        // SQLite also resolves a relative path when it opens the file.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, opened: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether a file can be created at the path.
    pub(crate) fn has_directory(&self) -> bool {
        self.path.parent().is_some_and(Path::is_dir)
    }

    /// Compares the path with the opened file; `is_connected` is whether any connection to it is open.
    ///
    /// The calls that read metadata do not wait for a disk in practice: the kernel has cached these entries since the
    /// last use.
    pub(crate) fn state(&self, is_connected: bool) -> PathState {
        let opened = &mut *self.opened();
        if !is_connected {
            // SQLite removes the log with the last connection.
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
                let is_same = |(seen, now): (&Option<FileId>, Option<FileId>)| seen.is_none() || *seen == now;
                let is_same = opened.log.iter().zip(opened.found_log()).all(is_same);
                if is_same { PathState::Opened } else { PathState::LogReplaced }
            }
            // An empty file is about to be written, perhaps by a program that copies a backup.
            Ok((_, length)) if length > 0 => PathState::Replaced,
            _ => PathState::Missing(opened.missing_since.get_or_insert_with(Instant::now).elapsed()),
        }
    }

    /// Confirms, after a connection was opened or has committed, that the path leads to the same file.
    pub(crate) fn confirm(&self) -> Result<(), FileError> {
        let opened = &mut *self.opened();
        if opened.database.is_none() {
            match identify(&self.path) {
                Ok((id, _)) => opened.open(id, &self.path),
                // A database in memory.
                Err(_) => return Ok(()),
            }
        }
        // The log is looked at first: it belongs to the opened file if the path leads there afterwards.
        let log = opened.found_log();
        if !identify(&self.path).is_ok_and(|(id, _)| Some(id) == opened.database) {
            return Err(FileError::ReplacedDuringCall(self.path.clone()));
        }
        for (seen, now) in opened.log.iter_mut().zip(log) {
            *seen = seen.or(now);
        }
        Ok(())
    }

    /// Removes the log of the opened file, which would be applied to the file that replaced it.
    ///
    /// Call it while connections to the opened file are open: no other log can have its inode until they are closed.
    ///
    /// # Errors
    /// Fails when another process does the same at this moment, or the log cannot be removed.
    pub(crate) fn remove_log(&self) -> io::Result<()> {
        let opened = self.opened();
        let Some(directory) = opened.target.parent().filter(|directory| directory.is_dir()) else {
            return Ok(());
        };
        // Another process may remove the same log and create a new one between the comparison and the removal.
        let directory = File::open(directory)?;
        if !directory.try_lock_exclusive()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for (suffix, seen) in LOG_SUFFIXES.iter().zip(opened.log) {
            let path = beside(&opened.target, suffix);
            if seen.is_some() && identify(&path).ok().map(|(id, _)| id) == seen {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Forgets the opened file, after all connections to it were closed.
    pub(crate) fn forget(&self) {
        *self.opened() = Opened::default();
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().expect("nothing panics under this lock")
    }
}

impl Place for OpenedFile {
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
        LOG_SUFFIXES.map(|suffix| identify(&beside(&self.target, suffix)).ok().map(|(id, _)| id))
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Returns the identity and the length of the file at a path.
#[cfg(unix)]
fn identify(path: &Path) -> io::Result<(FileId, u64)> {
    use std::os::unix::fs::MetadataExt;

    let metadata = fs::metadata(path)?;
    Ok((FileId(metadata.dev(), metadata.ino()), metadata.len()))
}

/// Returns the same identity for every file: here, an open file cannot be removed or replaced.
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
                "the database file {} was removed while it was in use: put it back, or restart the process to begin \
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
    fn only_the_log_of_the_opened_file_is_removed() {
        let folder = folder("log");
        let (path, log) = (folder.join("counts.db"), folder.join("counts.db-wal"));
        write(&path, "one");
        write(&log, "of one");
        let file = OpenedFile::new(&path);
        file.confirm().expect("it is the same file");
        // As long as the log is open, its inode is not used again.
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
