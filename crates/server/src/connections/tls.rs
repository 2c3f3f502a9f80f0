//! Encryption: a certificate and its key, read and checked before the port opens.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::error::Error;

const HTTP2: &[u8] = b"h2";

/// What clients of an encrypted service are shown.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads PEM files: the server's certificate, followed by those that vouch for it, and its
    /// private key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let chain = certificates(certificate)?;
        let secret = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| unreadable(key, "PRIVATE KEY", error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret));
        let mut config = config.map_err(|error| Error::TlsPair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            why: why_refused(error),
        })?;
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }
}

/// Whether both sides have agreed on HTTP/2.
pub fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let kind = "CERTIFICATE";
    let chain = CertificateDer::pem_file_iter(path).and_then(|found| found.collect());
    let chain: Vec<_> = chain.map_err(|error| unreadable(path, kind, error))?;
    match chain.is_empty() {
        true => Err(unreadable(path, kind, pem::Error::NoItemsFound)),
        false => Ok(chain),
    }
}

fn unreadable(path: &Path, kind: &str, error: pem::Error) -> Error {
    let why = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("no PEM section of kind {kind} in it"),
        other => format!("no valid PEM: {other}"),
    };
    Error::TlsFile { path: path.to_owned(), why }
}

fn why_refused(error: rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "the key belongs to another certificate".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Files `a.pem`, `a.key` and `b.key` in a folder.
    fn files() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            fs::write(folder.path().join(format!("{name}.pem")), pair.cert.pem()).unwrap();
            let key = pair.signing_key.serialize_pem();
            fs::write(folder.path().join(format!("{name}.key")), key).unwrap();
        }
        fs::write(folder.path().join("text"), "hello").unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(folder.path().join("broken.pem"), broken).unwrap();
        folder
    }

    #[track_caller]
    fn check_refused(certificate: &str, key: &str, want: &str) {
        let folder = files();
        let error = Tls::load(&folder.path().join(certificate), &folder.path().join(key));
        let error = error.err().expect("these files are no pair").to_string();
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn a_pair_is_taken() {
        let folder = files();
        assert!(Tls::load(&folder.path().join("a.pem"), &folder.path().join("a.key")).is_ok());
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        check_refused("none.pem", "a.key", "none.pem for TLS: No such file");
        check_refused("a.pem", "none.key", "none.key for TLS: No such file");
        check_refused("text", "a.key", "text for TLS: no PEM section of kind CERTIFICATE in it");
        check_refused("a.pem", "a.pem", "a.pem for TLS: no PEM section of kind PRIVATE KEY in it");
        check_refused("a.pem", "b.key", "the key belongs to another certificate");
        check_refused("broken.pem", "a.key", "broken.pem");
    }
}
