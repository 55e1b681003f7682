//! A real Redis server that speaks TLS, and the certificates for it.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::redis::{RedisServer, free_port, owned};

/// A [`RedisServer`] whose port speaks TLS alone, under an authority that was made for it.
#[derive(Debug)]
pub struct TlsRedis {
    server: RedisServer,
    certificates: Certificates,
}

impl TlsRedis {
    /// Starts a server that takes any client.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::start`].
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&["--tls-auth-clients", "no"])
    }

    /// Starts a server that takes those clients alone that show a certificate of its authority.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::start`].
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

    /// The server, which takes commands without TLS by its socket. Its own address and URL are
    /// those of the port that speaks TLS.
    #[must_use]
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// The server, to be stopped or started again.
    pub fn server_mut(&mut self) -> &mut RedisServer {
        &mut self.server
    }

    /// The address as Redis clients take it: `rediss://127.0.0.1:PORT`. The certificate is good for
    /// `localhost` as well, and for no other name.
    #[must_use]
    pub fn url(&self) -> String {
        format!("rediss://{}", self.server.address())
    }

    /// The certificates: what a client has to trust, and to show.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }
}

/// An authority, and what it has signed: files in PEM in a folder of their own.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// Makes an authority with a certificate for a server on the loopback address and one for a
    /// client.
    ///
    /// # Panics
    ///
    /// When the folder for temporary files is not writable.
    #[must_use]
    pub fn make() -> Self {
        let made = Self(tempfile::tempdir().expect("the folder for temporary files is writable"));
        let mut authority = params(&[], "the authority of a test");
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

    /// The certificate of the authority.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.file("authority.crt")
    }

    /// The certificate of the server, for `127.0.0.1` and `localhost`.
    #[must_use]
    pub fn server(&self) -> PathBuf {
        self.file("server.crt")
    }

    /// The key of the server.
    #[must_use]
    pub fn server_key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// The certificate of the client.
    #[must_use]
    pub fn client(&self) -> PathBuf {
        self.file("client.crt")
    }

    /// The key of the client.
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

    /// What `redis-cli` is told, when it trusts the authority and says `arguments` besides.
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
    fn a_server_with_tls_takes_those_who_trust_its_authority() {
        let mut redis = TlsRedis::start();
        assert_eq!(redis.url(), format!("rediss://127.0.0.1:{}", redis.server().port()));
        assert_eq!(ping(&redis, "127.0.0.1", false), "PONG\n");
        assert_eq!(ping(&redis, "localhost", false), "PONG\n");
        redis.server_mut().restart();
        assert_eq!(redis.server().int(&["INCR", "n"]), 1);
        assert_eq!(ping(&redis, "127.0.0.1", true), "PONG\n");
    }

    #[test]
    fn a_server_with_mutual_tls_wants_a_certificate_of_its_authority() {
        let redis = TlsRedis::start_mutual();
        assert_eq!(ping(&redis, "127.0.0.1", false), "");
        assert_eq!(ping(&redis, "127.0.0.1", true), "PONG\n");
    }
}
