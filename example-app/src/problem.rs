//! Error messages for people: what is wrong, where, and what to do.

use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind};
use std::iter::successors;

use counter_core::dump::RestoreError;
use counter_core::{ErrorKind as StoreErrorKind, unstable::sqlx};

/// What to do if a server does not respond.
const NO_SERVER: &str = "check the address, and that the server is running";

/// The same for a URL that needs TLS.
const NO_TLS_SERVER: &str =
    "check the address, that the server is running, and that it uses TLS: if not, use redis://";

/// An error with its place: an option with its value, or a file.
#[derive(Debug)]
pub(crate) struct Problem {
    place: String,
    source: Box<dyn Error>,
}

impl Problem {
    /// Adds the place to an error, like [`At::at`].
    pub(crate) fn new(place: impl Display, source: impl Into<Box<dyn Error>>) -> Self {
        Self { place: place.to_string(), source: source.into() }
    }
}

/// Adds the place to an error.
pub(crate) trait At<T> {
    /// Adds the option or the file that the error is about. It must not contain a password.
    ///
    /// # Errors
    ///
    /// Returns the error with its place.
    fn at(self, place: impl Display) -> Result<T, Box<dyn Error>>;
}

impl<T, E: Into<Box<dyn Error>>> At<T> for Result<T, E> {
    fn at(self, place: impl Display) -> Result<T, Box<dyn Error>> {
        self.map_err(|error| Problem::new(place, error).into())
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// Returns the error and its causes, starting with the error.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// Formats an error with its causes, and adds what to do.
pub(crate) fn explain(error: &(dyn Error + 'static)) -> String {
    let (mut text, denial) = (String::new(), denial(error));
    for cause in causes(error) {
        // The store can be reached, but not with this URL.
        let cause = match cause.downcast_ref::<counter_core::Error>().map(counter_core::Error::kind) {
            Some(StoreErrorKind::Unavailable) if denial.is_some() => {
                "the store does not accept the connection".to_owned()
            }
            _ => cause.to_string(),
        };
        // Some errors of databases contain their cause.
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text += &format!(": {cause}");
        }
    }
    let remedy = denial.or_else(|| causes(error).filter_map(remedy).last());
    // If a server does not use TLS, the reason is just that there is no connection.
    let needs_tls = ["rediss", "valkeys"].iter().any(|scheme| text.contains(scheme));
    let remedy = remedy.map(|remedy| if needs_tls && remedy == NO_SERVER { NO_TLS_SERVER } else { remedy });
    match remedy {
        Some(remedy) => format!("{text}; {remedy}"),
        None => text,
    }
}

/// Returns `true` if the store does not accept the user, the password or the number of the database. It can be reached, but
/// waiting does not help.
pub(crate) fn is_denied(error: &(dyn Error + 'static)) -> bool {
    denial(error).is_some()
}

/// Returns what to do if waiting does not help.
fn denial(error: &(dyn Error + 'static)) -> Option<&'static str> {
    const PASSWORD: &str = "check the user and the password in the URL";
    // Stores do not have a kind for this, so we look for the words of Redis, PostgreSQL and MariaDB.
    let words = [
        ("WRONGPASS", PASSWORD),
        ("NOAUTH", PASSWORD),
        ("password authentication failed", PASSWORD),
        ("Access denied for user", PASSWORD),
        ("DB index is out of range", "check the number of the database at the end of the URL"),
    ];
    let remedy =
        |cause: String| words.iter().find(|(words, _)| cause.contains(words)).map(|(_, remedy)| *remedy);
    causes(error).map(ToString::to_string).find_map(remedy)
}

/// Returns what to do about a cause.
fn remedy(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return Some(match error.kind() {
            ErrorKind::NotFound => "check the path",
            ErrorKind::PermissionDenied => "check the permissions",
            ErrorKind::AlreadyExists => "choose another name, because files are not replaced",
            ErrorKind::IsADirectory | ErrorKind::NotADirectory => "the path must be that of a file",
            ErrorKind::AddrInUse => {
                "stop the other program, or choose another port, such as 0 for any free port"
            }
            ErrorKind::AddrNotAvailable => {
                "choose an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
            }
            ErrorKind::HostUnreachable => "check the host name",
            ErrorKind::ConnectionRefused => "check the address, and that a server listens there",
            _ => return None,
        });
    }
    if let Some(error) = cause.downcast_ref::<counter_core::Error>() {
        let is_unavailable = *error.kind() == StoreErrorKind::Unavailable;
        return is_unavailable.then_some(NO_SERVER);
    }
    if let Some(error) = cause.downcast_ref::<sqlx::Error>() {
        let is_missing = matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::Io(_));
        return is_missing.then_some(NO_SERVER);
    }
    if cause.is::<serde_json::Error>() {
        return Some("correct the file, or see the documentation for its format");
    }
    if cause.is::<counter_core::visitor::SecretError>() {
        return Some("you can create one with `openssl rand -hex 16`");
    }
    match cause.downcast_ref::<RestoreError>() {
        Some(RestoreError::Malformed { line: 1, .. }) => Some("the file must be written by `dump`"),
        // A part of this dump may have been added, so that the store rejects another dump of the same counts.
        Some(RestoreError::Truncated { .. }) => Some(
            "copy the whole file and repeat this command, which adds no part twice; a new dump needs an empty store",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_place_the_causes_and_what_to_do() {
        let missing: Result<(), _> = Err(io::Error::from(ErrorKind::NotFound));
        let error = missing.at("rules.json").at("--rules").expect_err("it is missing");
        assert_eq!(explain(&*error), "--rules: rules.json: entity not found; check the path");
    }

    #[test]
    fn a_cause_that_is_part_of_the_message_is_not_repeated() {
        let error: Result<(), _> = Err(sqlx::Error::Io(io::Error::other("disk")));
        let error = error.at("--store sqlite:counts.db").expect_err("it failed");
        assert_eq!(explain(&*error).matches("disk").count(), 1, "{}", explain(&*error));
    }
}
