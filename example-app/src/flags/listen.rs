//! Addresses to listen on.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use tokio::net::lookup_host;

/// An IP address or host name, with a port.
#[derive(Clone, Debug)]
pub(crate) struct ListenAddress(String);

impl ListenAddress {
    /// Returns the addresses of the host.
    ///
    /// # Errors
    ///
    /// Returns an error if the name can't be resolved.
    pub(crate) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found = lookup_host(&*self.0).await;
        Ok(found.map_err(|error| io::Error::new(io::ErrorKind::HostUnreachable, error))?.collect())
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = |(host, port): (&str, &str)| {
            !host.is_empty() && !host.contains([':', '/']) && port.parse::<u16>().is_ok()
        };
        match text.parse::<SocketAddr>().is_ok() || text.rsplit_once(':').is_some_and(is_name) {
            true => Ok(Self(text.to_owned())),
            false => Err("expected a host and a port, such as 127.0.0.1:3000, localhost:3000 or [::1]:3000"),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, is_valid) in [
            ("127.0.0.1:0", true),
            ("localhost:3000", true),
            ("[::1]:3000", true),
            ("::1:3000", false),
            ("http://localhost:3000", false),
            ("localhost", false),
            ("localhost:http", false),
            (":3000", false),
            ("3000", false),
            ("127.0.0.1:99999", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<ListenAddress>().is_ok(), is_valid, "{text}");
        }
    }
}
