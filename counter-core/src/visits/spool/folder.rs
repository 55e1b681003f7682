//! The files in a directory that several processes share. Each process has its own file; unlocked files can be recovered by any.
//!
//! A process holds a lock while it lives. The kernel releases the lock when the process ends for any reason, so this depends
//! on neither clocks nor process ids.

use std::io;
use std::path::{Path, PathBuf};

use fs4::fs_std::FileExt;
use tokio::fs;

use crate::family::writer::WriterId;

/// The prefix of all file names. Other files are never touched.
const PREFIX: &str = "access-counter-";
const SUFFIX: &str = "spool";
const LOCK: &str = "lock";
/// The suffix of a damaged file.
const ASIDE: &str = "damaged";
/// The suffix of the copy of a file whose log is damaged.
const DAMAGED_COPY: &str = "damaged-log";
/// The suffix of SQLite's log.
const LOG: &str = "-wal";
/// The suffixes of SQLite's additional files: the log, and the journal that exists before the log. If the process is killed in
/// between, the journal remains.
const BESIDE: [&str; 2] = [LOG, "-journal"];

/// The place of a file in the directory, locked for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    _lock: std::fs::File,
}

/// Creates the directory, and checks that files can be created in it.
///
/// # Errors
/// Fails if they cannot.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    // If the process is killed in between, this leaves a lock without a file, which other processes remove.
    let probe = folder.join(format!("{PREFIX}{}.{LOCK}", WriterId::random()));
    std::fs::write(&probe, b"probe")?;
    gone(std::fs::remove_file(probe))
}

/// Accepts that a file was removed by another process.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Lists the places that have a file or a lock.
pub(crate) async fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut entries, mut places) = (fs::read_dir(folder).await?, Vec::new());
    while let Some(entry) = entries.next_entry().await? {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let suffix = path.extension().unwrap_or_default();
        if name.starts_with(PREFIX) && (suffix == SUFFIX || suffix == LOCK) {
            places.push(path.with_extension(SUFFIX));
        }
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

impl Place {
    /// Locks a new place.
    pub(crate) async fn new(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("{PREFIX}{}.{SUFFIX}", WriterId::random()));
        let lock = path.with_extension(LOCK);
        let place = Self::lock(&path).await?.ok_or(io::ErrorKind::WouldBlock)?;
        // Any process may remove a lock without a file, possibly before it was locked.
        if fs::try_exists(lock).await? { Ok(place) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Locks the place of a file that no process holds; `None` if a process holds it or the file does not exist.
    pub(crate) async fn of(path: &Path) -> io::Result<Option<Self>> {
        let Some(place) = Self::lock(path).await? else { return Ok(None) };
        if fs::try_exists(path).await? {
            return Ok(Some(place));
        }
        place.remove().await?;
        Ok(None)
    }

    async fn lock(path: &Path) -> io::Result<Option<Self>> {
        let lock = path.with_extension(LOCK);
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(lock).await?;
        let lock = lock.into_std().await;
        let is_free = lock.try_lock_exclusive()?;
        Ok(is_free.then(|| Self { path: path.to_owned(), _lock: lock }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file exists.
    pub(crate) async fn exists(&self) -> io::Result<bool> {
        fs::try_exists(&self.path).await
    }

    /// Returns the size on disk, in bytes.
    ///
    /// # Errors
    /// Fails if the file was removed.
    pub(crate) async fn bytes(&self) -> io::Result<u64> {
        let file = fs::metadata(&self.path).await?.len();
        let log = fs::metadata(beside(&self.path, LOG)).await.map_or(0, |log| log.len());
        Ok(file + log)
    }

    /// Removes the file, and then the lock.
    ///
    /// The file must be closed, or never be written again.
    pub(crate) async fn remove(&self) -> io::Result<()> {
        // Without its log the file would have older contents, possibly of another writer.
        gone(fs::remove_file(&self.path).await)?;
        for suffix in BESIDE {
            gone(fs::remove_file(beside(&self.path, suffix)).await)?;
        }
        gone(fs::remove_file(self.path.with_extension(LOCK)).await)
    }

    /// Syncs the directory, so that a removed file does not return after a power failure.
    pub(crate) async fn sync(&self) -> io::Result<()> {
        // Only Unix opens directories.
        match self.path.parent() {
            Some(folder) if cfg!(unix) && fs::try_exists(folder).await? => {
                fs::File::open(folder).await?.sync_all().await
            }
            _ => Ok(()),
        }
    }

    /// Renames a damaged file and SQLite's additional files for later inspection; returns the new name.
    pub(crate) async fn set_aside(&self) -> io::Result<PathBuf> {
        let aside = self.path.with_extension(ASIDE);
        fs::rename(&self.path, &aside).await?;
        for suffix in BESIDE {
            drop(fs::rename(beside(&self.path, suffix), beside(&aside, suffix)).await);
        }
        self.remove().await?;
        Ok(aside)
    }
}

/// Returns the path of the log of a file.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, LOG)
}

/// Returns the path of the copy of a file whose log is damaged.
pub(super) fn damaged_copy(path: &Path) -> PathBuf {
    path.with_extension(DAMAGED_COPY)
}

/// Returns the path of an additional file of SQLite.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_removed_before_its_log() {
        let folder = std::env::temp_dir().join(WriterId::random().to_string());
        std::fs::create_dir(&folder).expect("writable");
        let place = Place::new(&folder).await.expect("writable");
        std::fs::write(place.path(), "rows").expect("writable");
        // A directory in its place simulates a log that cannot be removed.
        std::fs::create_dir(beside(place.path(), LOG)).expect("writable");
        place.remove().await.expect_err("a folder is no file");
        assert!(!place.exists().await.expect("readable"));
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
