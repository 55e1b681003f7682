//! A Redis server with TLS, and the certificates for it.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::redis::{RedisServer, free_port, owned};

/// A [`RedisServer`] that only accepts TLS on the port. The certificate authority is created for this server.
#[derive(Debug)]
pub struct TlsRedis {
    server: RedisServer,
    certificates: Certificates,
}

impl TlsRedis {
    /// Starts a server that does not require client certificates.
    ///
    /// # Panics
    ///
    /// Panics like [`RedisServer::start`].
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&["--tls-auth-clients", "no"])
    }

    /// Starts a server that requires a client certificate from this authority.
    ///
    /// # Panics
    ///
    /// Panics like [`RedisServer::start`].
    #[must_use]
    pub fn start_mutual() -> Self {
        Self::start_with(&["--tls-auth-clients", "yes"])
    }

    fn start_with(arguments: &[&str]) -> Self {
        let certificates = Certificates::make();
        let server = RedisServer::start_on(free_port, |_, port| {
            let files = [
                ("--tls-ca-cert-file", certificates.authority()),
                ("--tls-cert-file", certificates.server()),
                ("--tls-key-file", certificates.server_key()),
            ];
            let files = files.into_iter().flat_map(|(option, path)| [option.to_owned(), plain(&path)]);
            let words = ["--bind", "127.0.0.1", "--save", "", "--port", "0", "--tls-port"];
            owned(&words).chain([port.to_string()]).chain(files).chain(owned(arguments)).collect()
        });
        Self { server, certificates }
    }

    /// Returns the server. Commands are sent via the Unix socket without TLS, but the address and the URL
    /// belong to the TLS port.
    #[must_use]
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// Returns the server, e.g. to stop or restart it.
    pub fn server_mut(&mut self) -> &mut RedisServer {
        &mut self.server
    }

    /// Returns the URL for Redis clients: `rediss://127.0.0.1:PORT`. The certificate is also valid for
    /// `localhost`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("rediss://{}", self.server.address())
    }

    /// Returns the certificates for a client.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }
}

/// A certificate authority with a server and a client certificate, as PEM files in a temporary folder.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// Creates an authority with a certificate for a loopback server and a certificate for a client.
    ///
    /// # Panics
    ///
    /// Panics if the temporary folder is not writable.
    #[must_use]
    pub fn make() -> Self {
        let made = Self(tempfile::tempdir().expect("the folder for temporary files is writable"));
        let mut authority = params(&[], "test authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = key();
        write(&made.authority(), &authority.self_signed(&key).expect("good parameters").pem());
        let issuer = Issuer::new(authority, key);
        made.sign(&issuer, &["localhost", "127.0.0.1"], "server", ExtendedKeyUsagePurpose::ServerAuth);
        made.sign(&issuer, &[], "client", ExtendedKeyUsagePurpose::ClientAuth);
        made
    }

    fn sign(
        &self,
        issuer: &Issuer<'_, KeyPair>,
        names: &[&str],
        holder: &str,
        purpose: ExtendedKeyUsagePurpose,
    ) {
        let mut params = params(names, holder);
        params.extended_key_usages = vec![purpose];
        let key = key();
        let certificate = params.signed_by(&key, issuer).expect("good parameters");
        write(&self.file(&format!("{holder}.crt")), &certificate.pem());
        write(&self.file(&format!("{holder}.key")), &key.serialize_pem());
    }

    /// Returns the path of the authority certificate.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.file("authority.crt")
    }

    /// Returns the path of the server certificate, which is valid for `127.0.0.1` and `localhost`.
    #[must_use]
    pub fn server(&self) -> PathBuf {
        self.file("server.crt")
    }

    /// Returns the path of the server key.
    #[must_use]
    pub fn server_key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// Returns the path of the client certificate.
    #[must_use]
    pub fn client(&self) -> PathBuf {
        self.file("client.crt")
    }

    /// Returns the path of the client key.
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.file("client.key")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn params(names: &[&str], holder: &str) -> CertificateParams {
    let names: Vec<String> = owned(names).collect();
    let mut params = CertificateParams::new(names).expect("good names");
    params.distinguished_name.push(DnType::CommonName, holder);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("our folder is writable");
}

fn plain(path: &Path) -> String {
    path.to_str().expect("the folder for temporary files has a plain name").to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::TlsRedis;

    /// Sends `PING` with `redis-cli`, which trusts the authority, and returns the output.
    fn ping(redis: &TlsRedis, host: &str, with_certificate: bool) -> String {
        let certificates = redis.certificates();
        let mut client = Command::new("redis-cli");
        client.args(["-h", host, "-p"]).arg(redis.server().port().to_string());
        client.args(["--tls", "--cacert"]).arg(certificates.authority());
        if with_certificate {
            client.arg("--cert").arg(certificates.client()).arg("--key").arg(certificates.client_key());
        }
        let output = client.arg("PING").output().expect("redis-cli is on the PATH: tests/run installs it");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn clients_that_trust_the_authority_can_connect() {
        let mut redis = TlsRedis::start();
        assert_eq!(redis.url(), format!("rediss://127.0.0.1:{}", redis.server().port()));
        assert_eq!(ping(&redis, "127.0.0.1", false), "PONG\n");
        assert_eq!(ping(&redis, "localhost", false), "PONG\n");
        redis.server_mut().restart();
        assert_eq!(redis.server().int(&["INCR", "n"]), 1);
        assert_eq!(ping(&redis, "127.0.0.1", true), "PONG\n");
    }

    #[test]
    fn mutual_tls_requires_a_client_certificate() {
        let redis = TlsRedis::start_mutual();
        assert_eq!(ping(&redis, "127.0.0.1", false), "");
        assert_eq!(ping(&redis, "127.0.0.1", true), "PONG\n");
    }
}
