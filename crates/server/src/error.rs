//! What can go wrong with the service itself; what is wrong with a request is an `ApiError`.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the server has no model and no tables to serve")]
    NoModel,
    #[error("two models are named {0:?}; name them apart: --model NAME=PATH")]
    DuplicateModel(String),
    #[error("cannot read the chat template {path}: {source}", path = .path.display())]
    ChatTemplateFile { path: PathBuf, source: std::io::Error },
    #[error("the chat template given to the server is wrong: {0}")]
    ChatTemplate(terrace_model::Error),
    #[error("cannot use {path} for TLS: {why}", path = .path.display())]
    TlsFile { path: PathBuf, why: String },
    #[error(
        "cannot use {certificate} with {key} for TLS: {why}",
        certificate = .certificate.display(), key = .key.display()
    )]
    TlsPair { certificate: PathBuf, key: PathBuf, why: String },
}
