//! The country of an address, from a database that the owner of the site provides.

use std::error::Error;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use maxminddb::{MaxMindDbError, PathElement, Reader, WithinOptions};

use super::text::Text;
use super::value::Value;
use crate::recent::Recent;

/// A database of networks and their countries, for [`Label::country_from`](crate::Label::country_from).
///
/// The file is in the [MaxMind DB format](https://maxmind.github.io/MaxMind-DB/), like GeoLite2 Country and City, DB-IP
/// Lite, IP2Location LITE and IPinfo Lite. It is not part of this crate: you need to download it, and its license may
/// require you to name the source. It is read into memory. Clones share the database.
///
/// An address is looked up and forgotten: only the country is counted.
#[derive(Clone)]
pub struct CountryDatabase(Arc<Shared>);

/// An error returned if a [`CountryDatabase`] can't be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum CountryDatabaseError {
    /// The file can't be read.
    Io(PathBuf, io::Error),
    /// The file is damaged or has another format. Contains the reason.
    Malformed(PathBuf, String),
    /// The database does not contain countries. Contains its type, e.g. `GeoLite2-ASN`.
    NoCountries(PathBuf, String),
}

struct Shared {
    path: PathBuf,
    state: RwLock<State>,
    /// The countries of recent addresses, by generation.
    recent: Recent,
}

struct State {
    reader: Reader<Vec<u8>>,
    version: Version,
    /// Increased whenever the file is read again.
    generation: u64,
}

/// What changes when a file is replaced.
#[derive(PartialEq, Eq)]
struct Version {
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

/// Number of networks to search for a country.
const CHECKED_NETWORKS: usize = 10_000;

/// The fields that contain the code, by precedence: the names of MaxMind, and those of IPinfo. If a network has no
/// country, the country in which it is registered is usually right.
const FIELDS: [&[PathElement<'static>]; 4] = [
    &[PathElement::Key("country"), PathElement::Key("iso_code")],
    &[PathElement::Key("registered_country"), PathElement::Key("iso_code")],
    &[PathElement::Key("country_code")],
    &[PathElement::Key("country")],
];

impl CountryDatabase {
    /// Reads a database.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is damaged, or does not contain countries.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, CountryDatabaseError> {
        let path = path.into();
        let (reader, version) = read(&path)?;
        let state = RwLock::new(State { reader, version, generation: 0 });
        Ok(Self(Arc::new(Shared { path, state, recent: Recent::default() })))
    }

    /// Reads the file again if it has changed, and returns whether it did.
    ///
    /// You should call this from time to time, e.g. every minute, outside of the request path: it blocks until the file
    /// is read. After an error, the previous database remains in use.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`open`](Self::open).
    pub fn reload(&self) -> Result<bool, CountryDatabaseError> {
        let Shared { path, state, .. } = &*self.0;
        let metadata = fs::metadata(path).map_err(|error| CountryDatabaseError::Io(path.clone(), error))?;
        if state.read().unwrap_or_else(PoisonError::into_inner).version == Version::of(&metadata) {
            return Ok(false);
        }
        let (reader, version) = read(path)?;
        let state = &mut *state.write().unwrap_or_else(PoisonError::into_inner);
        *state = State { reader, version, generation: state.generation + 1 };
        Ok(true)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the value for an address, written to `text`.
    pub(super) fn country<'a>(&self, address: IpAddr, text: &'a mut Text) -> Value<'a> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        let compute = || {
            code(&state.reader, address)
                .map_or(0, |[first, second]| u64::from(first) << 8 | u64::from(second))
        };
        let mut octets = [0; 16];
        let octets = match address {
            IpAddr::V4(address) => {
                octets[..4].copy_from_slice(&address.octets());
                &octets[..4]
            }
            IpAddr::V6(address) => {
                octets = address.octets();
                &octets[..]
            }
        };
        match self.0.recent.number(octets, state.generation, compute).to_be_bytes() {
            [.., 0, 0] => Value::None,
            [.., first, second] => text.extend([first, second].into_iter()).map_or(Value::Other, Value::Text),
        }
    }
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        }
    }
}

/// Reads a file, and checks that it contains countries. The version is from before, so that a later change is noticed.
fn read(path: &Path) -> Result<(Reader<Vec<u8>>, Version), CountryDatabaseError> {
    let io = |error| CountryDatabaseError::Io(path.to_owned(), error);
    let malformed =
        |error: MaxMindDbError| CountryDatabaseError::Malformed(path.to_owned(), error.to_string());
    let version = Version::of(&fs::metadata(path).map_err(io)?);
    let reader = Reader::from_source(fs::read(path).map_err(io)?).map_err(malformed)?;
    let mut has_countries = false;
    for network in reader.networks(WithinOptions::default()).map_err(malformed)?.take(CHECKED_NETWORKS) {
        let network = network.map_err(malformed)?;
        for field in FIELDS {
            // A field of another type is not a country.
            has_countries |=
                network.decode_path::<&str>(field).ok().flatten().and_then(country_code).is_some();
        }
        if has_countries {
            return Ok((reader, version));
        }
    }
    Err(CountryDatabaseError::NoCountries(path.to_owned(), reader.metadata().database_type.clone()))
}

/// Returns the code of the country of an address.
fn code(reader: &Reader<Vec<u8>>, address: IpAddr) -> Option<[u8; 2]> {
    let found = reader.lookup(address).ok()?;
    FIELDS.iter().find_map(|field| country_code(found.decode_path::<&str>(field).ok()??))
}

/// Returns a code of two letters in upper case. `ZZ` and `XX` stand for an unknown country.
fn country_code(text: &str) -> Option<[u8; 2]> {
    let code = <[u8; 2]>::try_from(text.as_bytes()).ok()?;
    let code = code.map(|byte| byte.to_ascii_uppercase());
    let is_known = code.iter().all(u8::is_ascii_uppercase) && ![*b"ZZ", *b"XX"].contains(&code);
    is_known.then_some(code)
}

impl fmt::Debug for CountryDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountryDatabase").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl fmt::Display for CountryDatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, _) => write!(f, "cannot read the country database {}", path.display()),
            Self::Malformed(path, reason) => write!(
                f,
                "the country database {} is damaged, or not in the MaxMind DB format: {reason}",
                path.display()
            ),
            Self::NoCountries(path, kind) => write!(
                f,
                "the database {} has no countries: its type is {kind}, but it must be like GeoLite2 Country or DB-IP \
                 Country Lite",
                path.display()
            ),
        }
    }
}

impl Error for CountryDatabaseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::Malformed(..) | Self::NoCountries(..) => None,
        }
    }
}
