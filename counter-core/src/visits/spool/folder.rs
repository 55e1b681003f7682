//! The files of a directory that several processes share: each has its own, and one that nobody holds is anybody's.
//!
//! A process holds a lock for as long as it lives. The kernel ends the lock with the process, however that ends, so
//! neither a clock nor a process number has to be trusted.

use std::io;
use std::path::{Path, PathBuf};

use fs4::fs_std::FileExt;
use tokio::fs;

use crate::writer::WriterId;

/// The name of each file begins so, and what does not is never touched.
const PREFIX: &str = "access-counter-";
const SUFFIX: &str = "spool";
const LOCK: &str = "lock";
/// The suffix of a file that cannot be read.
const ASIDE: &str = "damaged";
/// The suffix of the copy of a file whose log is damaged.
const DAMAGED_COPY: &str = "damaged-log";
/// The end of the name of SQLite's log.
const LOG: &str = "-wal";
/// The ends of the names of the files that SQLite has beside another: its log, and a journal until there is a log. Of a
/// process that was killed in between, that journal stays.
const BESIDE: [&str; 2] = [LOG, "-journal"];

/// The place of a file in the directory, locked for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    _lock: std::fs::File,
}

/// Creates the directory, and checks that files can be made in it.
///
/// # Errors
/// Fails when they cannot.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    // Where the process is killed in between, or another one is quicker, this is a lock without a file, which is removed.
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
        // A lock without a file is removed by whoever sees it first, which may have been before it was locked.
        if fs::try_exists(lock).await? { Ok(place) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Locks the place of a file that no process holds; `None` where one does, or there is no file.
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

    /// Returns whether the file is there.
    pub(crate) async fn exists(&self) -> io::Result<bool> {
        fs::try_exists(&self.path).await
    }

    /// Returns the bytes on the disk.
    ///
    /// # Errors
    /// Fails when the file was removed.
    pub(crate) async fn bytes(&self) -> io::Result<u64> {
        let file = fs::metadata(&self.path).await?.len();
        let log = fs::metadata(beside(&self.path, LOG)).await.map_or(0, |log| log.len());
        Ok(file + log)
    }

    /// Removes the file, and last the lock.
    ///
    /// The file must be closed, or never be written again.
    pub(crate) async fn remove(&self) -> io::Result<()> {
        // Without its log the file would be an older one, which may be that of another writer.
        gone(fs::remove_file(&self.path).await)?;
        for suffix in BESIDE {
            gone(fs::remove_file(beside(&self.path, suffix)).await)?;
        }
        gone(fs::remove_file(self.path.with_extension(LOCK)).await)
    }

    /// Has the directory written to the disk, so that no power failure brings a file back that was removed.
    pub(crate) async fn sync(&self) -> io::Result<()> {
        // Only Unix opens directories.
        match self.path.parent() {
            Some(folder) if cfg!(unix) && fs::try_exists(folder).await? => {
                fs::File::open(folder).await?.sync_all().await
            }
            _ => Ok(()),
        }
    }

    /// Renames a file that cannot be read, with what SQLite has beside it, so that a person may look at it; returns the
    /// new name.
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

/// Returns the path of a file that SQLite has beside another.
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
        // A folder in its place stands for a log that cannot be removed.
        std::fs::create_dir(beside(place.path(), LOG)).expect("writable");
        place.remove().await.expect_err("a folder is no file");
        assert!(!place.exists().await.expect("readable"));
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
