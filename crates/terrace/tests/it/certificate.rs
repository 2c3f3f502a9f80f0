//! A certificate that vouches for itself, made for the time of a test.

use std::fs;
use std::path::{Path, PathBuf};

pub struct Certificate {
    folder: tempfile::TempDir,
}

impl Certificate {
    /// For the address at which tests serve.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a pair");
        fs::write(folder.path().join("certificate.pem"), pair.cert.pem()).expect("it is writable");
        fs::write(folder.path().join("key.pem"), pair.signing_key.serialize_pem())
            .expect("it is writable");
        Self { folder }
    }

    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    pub fn options(&self) -> [String; 4] {
        let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let (certificate, key) = (self.certificate(), self.folder.path().join("key.pem"));
        ["--ssl-certfile".to_owned(), path(&certificate), "--ssl-keyfile".to_owned(), path(&key)]
    }
}
