//! Whom to trust over TLS, and as whom to come: certificates as files, read and checked once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redis::{ClientTlsConfig, TlsCertificates};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::tier_error::TierError;

#[derive(Clone, Debug)]
pub struct RedisTlsFiles {
    /// PEM; or a folder of such files.
    pub ca_certificate: PathBuf,
    /// A certificate and its key, PEM, for servers that ask for one.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The name that all servers' certificates are checked against.
    pub server_name: String,
}

pub struct RedisTls {
    pub(super) certificates: TlsCertificates,
    pub(super) server_name: String,
}

impl RedisTls {
    pub fn read(files: &RedisTlsFiles) -> Result<Self, TierError> {
        let server_name = files.server_name.clone();
        ServerName::try_from(server_name.as_str()).map_err(|error| {
            wrong(format!("{server_name:?} is no name of a server ({error}); name a host"))
        })?;
        let (roots, root_pem) = read_roots(&files.ca_certificate)?;
        let client_tls = match &files.client {
            None => None,
            Some((certificate, key)) => Some(ClientTlsConfig {
                client_cert: read_file(certificate)?,
                client_key: read_file(key)?,
            }),
        };
        if let (Some(client), Some((certificate, key))) = (&client_tls, &files.client) {
            check_client(client, roots, certificate, key)?;
        }
        let certificates = TlsCertificates { client_tls, root_cert: Some(root_pem) };
        Ok(RedisTls { certificates, server_name })
    }
}

/// All certificates of a file, or of the files of a folder, and their PEM.
fn read_roots(path: &Path) -> Result<(RootCertStore, Vec<u8>), TierError> {
    let (mut roots, mut pem) = (RootCertStore::empty(), Vec::new());
    for file in files_of(path)? {
        let text = read_file(&file)?;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| unusable(&file, &error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(&file, &error.to_string()))?;
        }
        pem.extend_from_slice(&text);
        pem.push(b'\n');
    }
    if roots.is_empty() {
        return Err(unusable(path, "there is no certificate"));
    }
    Ok((roots, pem))
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, TierError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: std::io::Error| unusable(path, &error.to_string());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Certificate and key can be read, and belong to each other.
fn check_client(
    client: &ClientTlsConfig,
    roots: RootCertStore,
    certificate: &Path,
    key: &Path,
) -> Result<(), TierError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&client.client_cert).collect();
    let chain = chain.map_err(|error| unusable(certificate, &error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable(certificate, "there is no certificate"));
    }
    let key_der = PrivateKeyDer::from_pem_slice(&client.client_key)
        .map_err(|error| unusable(key, &error.to_string()))?;
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config.with_root_certificates(roots).with_client_auth_cert(chain, key_der)
        })
        .map_err(|error| unusable(key, &error.to_string()))?;
    Ok(())
}

fn read_file(path: &Path) -> Result<Vec<u8>, TierError> {
    std::fs::read(path).map_err(|error| unusable(path, &error.to_string()))
}

fn unusable(path: &Path, what: &str) -> TierError {
    wrong(format!("{} cannot be used: {what}; name a PEM file", path.display()))
}

fn wrong(text: String) -> TierError {
    TierError::Unavailable(format!("redis over TLS: {text}"))
}
