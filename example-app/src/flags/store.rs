//! Opens the store and the archive based on URLs.

use std::error::Error;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;
use std::{fs, io};

use clap::Args;
use counter_core::archive::Archive;
use counter_core::stores::Namespace;
use counter_core::unstable::sqlx::sqlite::SqliteConnectOptions;
use counter_core::{AnyStore, ErrorKind, MemoryStore, RedisStore, SqlStore};
use tokio::time::timeout;

use crate::problem::{At, causes, explain};

/// Default store: a file in the working directory.
const DEFAULT_STORE: &str = "sqlite:access-counter.db";

/// Time to wait for the archive at startup.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// Description of a store in memory.
const IN_MEMORY: &str = "in memory, and will be lost on exit";

/// Why a store in memory can't be read.
const NOTHING_TO_READ: &str =
    "there is nothing to read, because counts in memory end with their process; name a file or a server";

const UNKNOWN_SCHEME: &str = "the URL must start with sqlite:, redis://, postgres://, mysql:// or memory:, as in sqlite:counts.db or \
                              redis://127.0.0.1:6379";

/// Store options.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Store")]
pub(crate) struct Settings {
    /// Store URL (default: sqlite:access-counter.db).
    #[arg(long, alias = "redis", env = "COUNTER_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<String>,
    /// Prefix for Redis keys (default: access:).
    #[arg(long, env = "COUNTER_NAMESPACE", value_name = "PREFIX")]
    namespace: Option<Namespace>,
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: AnyStore,
    /// Description for the startup message, e.g. "in Redis".
    pub(crate) place: String,
    /// The URL, if this is a SQLite file.
    pub(crate) file: Option<String>,
    /// True if the counts are lost on exit.
    pub(crate) is_in_memory: bool,
    /// The option and the URL without the password, for error messages.
    pub(crate) option: String,
    address: String,
}

/// What a command does with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It counts, so the file or the tables are created.
    Write,
    /// It only reads, so nothing is created.
    Read,
    /// Like `Read`, but a database server may be away.
    ReadLater,
}

impl Settings {
    /// Connects to the store. To write, tables are created if needed.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid, or if the database does not exist. If Redis is unavailable,
    /// this will wait for it.
    pub(crate) async fn open(&self, mode: Mode) -> Result<Opened, Box<dyn Error>> {
        self.open_or(DEFAULT_STORE, mode).await
    }

    /// Like [`open`](Self::open), with a different default.
    pub(crate) async fn open_or(&self, default: &str, mode: Mode) -> Result<Opened, Box<dyn Error>> {
        let address = self.store.as_deref().unwrap_or(default);
        let option = format!("--store {}", without_password(address));
        let (store, place) = connect(address, self.namespace.as_ref(), mode).await.at(&option)?;
        let is_in_memory = match &store {
            AnyStore::Memory(_) => true,
            AnyStore::Sql(store) => store.is_in_memory(),
            _ => false,
        };
        let file = (address.starts_with("sqlite:") && !is_in_memory).then(|| address.to_owned());
        Ok(Opened { store, place, file, is_in_memory, option, address: address.to_owned() })
    }
}

/// Connects to a store. Also returns a description for the startup message.
pub(super) async fn connect(
    address: &str,
    namespace: Option<&Namespace>,
    mode: Mode,
) -> Result<(AnyStore, String), Box<dyn Error>> {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    if namespace.is_some() && (scheme == "memory" || is_sql(scheme)) {
        return Err(format!(
            "--namespace is only supported for Redis, but the store is {scheme}: use a separate file, database or schema per site"
        )
        .into());
    }
    Ok(match scheme {
        "memory" if mode != Mode::Write => return Err(NOTHING_TO_READ.into()),
        "memory" => (MemoryStore::new().into(), IN_MEMORY.to_owned()),
        _ if is_sql(scheme) => {
            let (store, place) = sql(address, mode).await?;
            (store.into(), place)
        }
        _ if !is_redis(scheme) => return Err(UNKNOWN_SCHEME.into()),
        _ => {
            let store = RedisStore::connect(address, namespace.cloned().unwrap_or_default()).await?;
            (store.into(), "in Redis".to_owned())
        }
    })
}

impl Opened {
    /// Connects to the archive for this store, and creates tables. Also returns a description for the startup
    /// message.
    ///
    /// # Errors
    ///
    /// Returns an error if this is not a database, if the database does not exist, or if it is the store.
    pub(crate) async fn archive(&self, address: &str) -> Result<(SqlStore, String), Box<dyn Error>> {
        check_archive_url(address)?;
        let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_same_file = match &self.file {
            Some(store) if scheme == "sqlite" => is_same(&file_of(store)?, &file_of(address)?),
            _ => address == self.address,
        };
        if is_same_file {
            return Err("--archive must not be the same database as --store".into());
        }
        let place = format!("--archive {}", without_password(address));
        sql(address, Mode::Write).await.at(place)
    }
}

/// Checks the URL of an archive, before a store is created.
///
/// # Errors
///
/// Returns an error if this is not a database, or if it is in memory.
pub(crate) fn check_archive_url(address: &str) -> Result<(), Box<dyn Error>> {
    if !is_sql(address.split_once(':').map_or("", |(scheme, _)| scheme)) {
        return Err("--archive must be a database: sqlite:, postgres: or mysql:".into());
    }
    if is_sqlite_memory(address) {
        return Err("--archive must not be in memory, because it would be lost on exit; name a file".into());
    }
    Ok(())
}

/// Rejects an archive that belongs to a different store. This only waits for a few seconds, because the
/// health status will also report it.
///
/// # Errors
///
/// Returns an error if the archive belongs to a different store.
pub(crate) async fn check_archive(archive: &Archive) -> Result<(), Box<dyn Error>> {
    match timeout(CHECK_TIMEOUT, archive.check()).await {
        Ok(Err(error)) if *error.kind() == ErrorKind::Rejected => {
            Err(format!("--archive: {}; choose another database", explain(&error)).into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn is_sql(scheme: &str) -> bool {
    ["sqlite", "postgres", "postgresql", "mariadb", "mysql"].contains(&scheme)
}

fn is_sqlite_memory(address: &str) -> bool {
    address.starts_with("sqlite:") && (address.contains(":memory:") || address.contains("mode=memory"))
}

fn is_redis(scheme: &str) -> bool {
    let protocol = scheme.split(['+', '-']).next().unwrap_or_default();
    ["redis", "rediss", "valkey", "valkeys"].contains(&protocol)
}

/// Connects to a SQL database. Also returns a description for the startup message.
async fn sql(address: &str, mode: Mode) -> Result<(SqlStore, String), Box<dyn Error>> {
    let file = match address.starts_with("sqlite:") {
        true if is_sqlite_memory(address) => None,
        true => Some(file_of(address)?),
        false => None,
    };
    let builder = match (mode, &file) {
        (Mode::Write, _) => SqlStore::builder().create_tables(),
        (Mode::Read | Mode::ReadLater, Some(file)) => {
            readable(file).at(cannot_open(file))?;
            SqlStore::builder()
        }
        _ if address.starts_with("sqlite:") => return Err(NOTHING_TO_READ.into()),
        (Mode::Read, None) => SqlStore::builder(),
        (Mode::ReadLater, None) => SqlStore::builder().check_later(),
    };
    let connected = builder.connect(address).await;
    // For programmers, the message contains a method.
    let connected = connected.map_err(|error| match error.to_string().split_once(": call `") {
        Some((reason, _)) => {
            format!("{reason}; start the site with this store to create or upgrade them").into()
        }
        None => Box::<dyn Error>::from(error),
    });
    match (file, address.split_once(':').map_or("", |(scheme, _)| scheme)) {
        (Some(file), _) => {
            let store = connected.map_err(|error| file_error(&file, error)).at(cannot_open(&file))?;
            Ok((store, format!("in {}", file.display())))
        }
        (None, "sqlite") => Ok((connected?, IN_MEMORY.to_owned())),
        (None, "postgres" | "postgresql") => Ok((connected?, "in PostgreSQL".to_owned())),
        (None, _) => Ok((connected?, "in MariaDB".to_owned())),
    }
}

/// Names the file in an error.
fn cannot_open(file: &Path) -> String {
    format!("{} cannot be opened", file.display())
}

/// Checks whether a file exists and is not empty. If it is empty, SQLite would write a header to it.
fn readable(file: &Path) -> io::Result<()> {
    match fs::metadata(file)? {
        found if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        found if found.len() == 0 => Err(io::Error::other("the file is empty, so it is not a store")),
        _ => fs::File::open(file).map(drop),
    }
}

/// Returns why a SQLite file can't be opened, because SQLite does not say so.
fn file_error(file: &Path, error: Box<dyn Error>) -> Box<dyn Error> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(file);
    let folder = file.parent().filter(|folder| !folder.is_dir());
    match (opened, folder, causes(&*error).last()) {
        (_, Some(folder), _) => {
            let reason = format!("the folder {} does not exist", folder.display());
            io::Error::new(io::ErrorKind::NotFound, reason).into()
        }
        // The file can't be created.
        (Err(missing), None, _) if missing.kind() == io::ErrorKind::NotFound => {
            io::Error::new(io::ErrorKind::PermissionDenied, "the file cannot be created in this folder")
                .into()
        }
        (Err(reason), None, _) => reason.into(),
        (Ok(_), None, Some(cause)) if error.source().is_some() => {
            format!("{cause}; choose a file that was created by this program, or a new name").into()
        }
        (Ok(_), None, _) => error,
    }
}

/// Returns the file of an address that starts with `sqlite:`.
fn file_of(address: &str) -> Result<PathBuf, Box<dyn Error>> {
    let options = address.parse::<SqliteConnectOptions>()?;
    match options.get_filename() {
        file if file.as_os_str().is_empty() => {
            Err("the name of the file is missing, as in sqlite:counts.db".into())
        }
        file => Ok(absolute(file)?),
    }
}

/// Explains why the SQLite file at this address can't be used.
pub(crate) fn unusable(address: &str, error: impl Into<Box<dyn Error>>) -> Box<dyn Error> {
    match file_of(address) {
        Ok(file) => format!("{}: {}", cannot_open(&file), explain(&*file_error(&file, error.into()))).into(),
        Err(invalid) => invalid,
    }
}

/// Returns an address without user, password and parameters, for messages.
pub(super) fn without_password(address: &str) -> String {
    if ["sqlite:", "memory:"].iter().any(|scheme| address.starts_with(scheme)) {
        return address.to_owned();
    }
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let host = match rest.rsplit_once('@') {
        // We can't know whether the password is before or after the question mark.
        Some((user, _)) if user.contains('?') => "",
        Some((_, host)) => host,
        None => rest,
    };
    let host = host.split('?').next().unwrap_or_default();
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

/// Returns whether the paths are equal, or resolve to the same existing file.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_contain_passwords() {
        for (address, shown) in [
            ("sqlite:counts.db?mode=rwc", "sqlite:counts.db?mode=rwc"),
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://:hidden@127.0.0.1:6379/1", "redis://127.0.0.1:6379/1"),
            ("redis://:hid@den?@127.0.0.1", "redis://"),
            ("postgres://ann:hidden@db/site?password=hidden", "postgres://db/site"),
            ("postgres://db/site?password=hid@den", "postgres://"),
            ("redis//:hidden@127.0.0.1", "127.0.0.1"),
            ("counts.db", "counts.db"),
        ] {
            assert_eq!(without_password(address), shown, "{address}");
        }
    }
}
