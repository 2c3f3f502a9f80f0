//! What can be wrong with a gin file, with its place.

#[derive(Debug, thiserror::Error)]
pub enum GinError {
    #[error("{file}:{line}: {problem}")]
    Syntax { file: String, line: usize, problem: String },
    #[error("cannot read {file}: {source}")]
    Read { file: String, source: std::io::Error },
    #[error("{file}:{line}: there is no file {included:?}; looked for it as {tried}")]
    IncludeMissing { file: String, line: usize, included: String, tried: String },
    #[error("{key} is not set, and has no default")]
    Missing { key: String },
    #[error("{file}:{line}: {key} is {found}, but must be {wanted}")]
    Kind { file: String, line: usize, key: String, found: String, wanted: String },
    #[error("{}", list_unknown(.0))]
    Unknown(Vec<String>),
}

fn list_unknown(keys: &[String]) -> String {
    match keys {
        [key] => format!("unknown key {key}"),
        _ => format!("{} unknown keys: {}", keys.len(), keys.join("; ")),
    }
}
