//! Files in a directory shared by multiple processes. A process writes to a single file; unlocked files can
//! be recovered by any process.
//!
//! A process holds a lock while it is running. The kernel releases the lock if the process ends for any
//! reason, so this doesn't depend on clocks or process ids.

use std::io;
use std::path::{Path, PathBuf};

use fs4::fs_std::FileExt;
use tokio::fs;

use crate::family::writer::WriterId;

/// Prefix of all file names. Other files are never touched.
const PREFIX: &str = "access-counter-";
const SUFFIX: &str = "spool";
const LOCK_SUFFIX: &str = "lock";
/// Suffix of a damaged file, which is renamed for later inspection.
const DAMAGED_SUFFIX: &str = "damaged";
/// Suffix for the copy of a file with a damaged log.
const DAMAGED_COPY: &str = "damaged-log";
/// Suffix of the SQLite log.
const LOG_SUFFIX: &str = "-wal";
/// Suffixes of the additional SQLite files: the log, and the journal that exists until the log is created. If
/// the process is killed in between, the journal remains.
const SQLITE_SUFFIXES: [&str; 2] = [LOG_SUFFIX, "-journal"];

/// Maximum number of names to try for a new file. Each attempt only fails if another process scans the directory within
/// microseconds.
const MAX_ATTEMPTS: usize = 20;

/// A file path in the directory, locked until this value is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    path: PathBuf,
    _lock: std::fs::File,
}

/// Creates the directory, and checks if we can create files in it.
///
/// # Errors
/// Fails if either is not possible.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    // If the process is killed here, this leaves a lock without a file, which will be removed by other
    // processes.
    let probe = folder.join(format!("{PREFIX}{}.{LOCK_SUFFIX}", WriterId::random()));
    std::fs::write(&probe, b"probe")?;
    ignore_not_found(std::fs::remove_file(probe))
}

/// Ignores the error if the file doesn't exist any more.
fn ignore_not_found(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Lists the slots that have a file or a lock.
pub(crate) async fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut entries, mut slots) = (fs::read_dir(folder).await?, Vec::new());
    while let Some(entry) = entries.next_entry().await? {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let suffix = path.extension().unwrap_or_default();
        if name.starts_with(PREFIX) && (suffix == SUFFIX || suffix == LOCK_SUFFIX) {
            slots.push(path.with_extension(SUFFIX));
        }
    }
    slots.sort_unstable();
    slots.dedup();
    Ok(slots)
}

impl Slot {
    /// Locks a new slot.
    pub(crate) async fn new(folder: &Path) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let path = folder.join(format!("{PREFIX}{}.{SUFFIX}", WriterId::random()));
            let lock = path.with_extension(LOCK_SUFFIX);
            // Any process that scans the directory may hold or remove a lock without a file, even just before or after we
            // lock it.
            if let Some(slot) = Self::lock(&path).await?
                && fs::try_exists(lock).await?
            {
                return Ok(slot);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Locks the slot of an existing file; `None` if it is locked by a process or if the file doesn't exist.
    pub(crate) async fn of(path: &Path) -> io::Result<Option<Self>> {
        let Some(slot) = Self::lock(path).await? else { return Ok(None) };
        if fs::try_exists(path).await? {
            return Ok(Some(slot));
        }
        slot.remove().await?;
        Ok(None)
    }

    async fn lock(path: &Path) -> io::Result<Option<Self>> {
        let lock = path.with_extension(LOCK_SUFFIX);
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(lock).await?;
        let lock = lock.into_std().await;
        let is_free = lock.try_lock_exclusive()?;
        Ok(is_free.then(|| Self { path: path.to_owned(), _lock: lock }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `true` if the file exists.
    pub(crate) async fn exists(&self) -> io::Result<bool> {
        fs::try_exists(&self.path).await
    }

    /// Returns the size of the file and the SQLite log on disk, in bytes.
    ///
    /// # Errors
    /// Fails if the file was removed.
    pub(crate) async fn bytes(&self) -> io::Result<u64> {
        let file = fs::metadata(&self.path).await?.len();
        let log = fs::metadata(with_suffix(&self.path, LOG_SUFFIX)).await.map_or(0, |log| log.len());
        Ok(file + log)
    }

    /// Removes the file, and then the lock.
    ///
    /// The file must be closed, or must not be written any more.
    pub(crate) async fn remove(&self) -> io::Result<()> {
        // The log must be removed after the file: without the log, the file would have older contents, even
        // from another writer.
        ignore_not_found(fs::remove_file(&self.path).await)?;
        for suffix in SQLITE_SUFFIXES {
            ignore_not_found(fs::remove_file(with_suffix(&self.path, suffix)).await)?;
        }
        ignore_not_found(fs::remove_file(self.path.with_extension(LOCK_SUFFIX)).await)
    }

    /// Syncs the directory, so that a removed file will not reappear after a power failure.
    pub(crate) async fn sync(&self) -> io::Result<()> {
        // Directories can be opened only on Unix.
        match self.path.parent() {
            Some(folder) if cfg!(unix) && fs::try_exists(folder).await? => {
                fs::File::open(folder).await?.sync_all().await
            }
            _ => Ok(()),
        }
    }

    /// Renames a damaged file and the additional SQLite files for later inspection. Returns the new path.
    pub(crate) async fn quarantine(&self) -> io::Result<PathBuf> {
        let quarantined = self.path.with_extension(DAMAGED_SUFFIX);
        fs::rename(&self.path, &quarantined).await?;
        for suffix in SQLITE_SUFFIXES {
            drop(fs::rename(with_suffix(&self.path, suffix), with_suffix(&quarantined, suffix)).await);
        }
        self.remove().await?;
        Ok(quarantined)
    }
}

/// Returns the path of the SQLite log.
pub(super) fn log_of(path: &Path) -> PathBuf {
    with_suffix(path, LOG_SUFFIX)
}

/// Returns the path for the copy of a file with a damaged log.
pub(super) fn damaged_copy(path: &Path) -> PathBuf {
    path.with_extension(DAMAGED_COPY)
}

/// Returns the path of an additional SQLite file.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_scan_by_another_process_does_not_fail_a_new_slot() {
        let folder = std::env::temp_dir().join(WriterId::random().to_string());
        std::fs::create_dir(&folder).expect("writable");
        let scans: Vec<_> = (0..3)
            .map(|_| {
                let folder = folder.clone();
                tokio::spawn(async move {
                    loop {
                        for path in list(&folder).await.expect("readable") {
                            drop(Slot::of(&path).await.expect("readable"));
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2000 {
            Slot::new(&folder).await.expect("writable").remove().await.expect("writable");
        }
        scans.iter().for_each(tokio::task::JoinHandle::abort);
        drop(futures_util::future::join_all(scans).await);
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[tokio::test]
    async fn files_are_removed_before_the_log() {
        let folder = std::env::temp_dir().join(WriterId::random().to_string());
        std::fs::create_dir(&folder).expect("writable");
        let slot = Slot::new(&folder).await.expect("writable");
        std::fs::write(slot.path(), "rows").expect("writable");
        // A directory at this path simulates a log that can't be removed.
        std::fs::create_dir(with_suffix(slot.path(), LOG_SUFFIX)).expect("writable");
        slot.remove().await.expect_err("a directory is not a file");
        assert!(!slot.exists().await.expect("readable"));
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
