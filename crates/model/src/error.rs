//! What can go wrong with a model's files and texts.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
    #[error(transparent)]
    Kernels(#[from] terrace_kernels::Error),
    #[error(transparent)]
    Gin(Box<crate::gin::GinError>),
    #[error(transparent)]
    Golden(#[from] terrace_golden::GoldenFileError),
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a file Terrace can use: {problem}")]
    Malformed { path: PathBuf, problem: String },
    #[error("{path} has no metadata {key:?}, which this model needs")]
    MetadataMissing { path: PathBuf, key: String },
    #[error("metadata {key:?} of {path} is {found}, but must be {wanted}")]
    MetadataKind { path: PathBuf, key: String, found: String, wanted: &'static str },
    #[error(
        "the tokenizer has {tokens} ids, the model a vocabulary of {vocab}: take the model's own"
    )]
    TokenizerTooLarge { tokens: usize, vocab: usize },
    #[error("the model files have no tensor {name:?}")]
    TensorMissing { name: String },
    #[error("tensor {name:?} is stored as {found}, but must be one of {wanted}")]
    TensorFormat { name: String, found: String, wanted: &'static str },
    #[error("tensor {name:?} has shape {found:?}, but must have {wanted} dimensions")]
    TensorRank { name: String, found: Vec<usize>, wanted: usize },
    #[error("tensor {name:?} has shape {found:?}, but the configuration asks for {wanted:?}")]
    TensorShape { name: String, found: Vec<usize>, wanted: Vec<usize> },
    #[error("adapter {name:?}: {problem}")]
    Adapter { name: String, problem: String },
    #[error("{path} is there already; choose another folder")]
    FolderExists { path: PathBuf },
    #[error("the model's configuration: {0}")]
    Config(String),
    #[error("not supported: {0}")]
    Unsupported(String),
    #[error("pre-tokenizer {name:?} is not known; known are {known}")]
    PreTokenizerUnknown { name: String, known: String },
    #[error("cannot tokenise: {problem}")]
    Tokenise { problem: String },
    #[error("the text has at least {least} tokens, the limit is {limit}")]
    TooManyTokens { least: usize, limit: usize },
    #[error("token id {id} is outside the vocabulary of {vocab} tokens")]
    TokenUnknown { id: u32, vocab: usize },
    #[error("the chat template does not work: {problem}")]
    Template { problem: String },
    /// The template itself raised an exception.
    #[error("the chat template refuses these messages: {message}")]
    TemplateRefused { message: String },
    #[error("the network: {0}")]
    CtrNetwork(String),
    #[error("layer {layer:?} ({kind}): {problem}")]
    CtrLayer { layer: String, kind: String, problem: String },
    #[error("dense weights: {0}")]
    CtrWeights(String),
    #[error("message part {found:?} is not supported; only text parts are")]
    MessagePart { found: String },
}

impl Error {
    pub(crate) fn adapter(name: &str, problem: impl Into<String>) -> Self {
        Error::Adapter { name: name.to_owned(), problem: problem.into() }
    }

    /// From the `tokenizers` crate, whose errors are boxed.
    pub(crate) fn tokenise(error: tokenizers::Error) -> Self {
        Error::Tokenise { problem: error.to_string() }
    }
}

impl From<crate::gin::GinError> for Error {
    fn from(error: crate::gin::GinError) -> Self {
        Error::Gin(Box::new(error))
    }
}
