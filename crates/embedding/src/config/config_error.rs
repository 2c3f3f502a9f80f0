//! Why a configuration cannot be used.

use std::fmt;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the configuration has more than {limit} bytes; is it the right file?")]
    TooLarge { limit: usize },
    #[error("the configuration is empty; it needs a JSON object with supportlonglong and models")]
    Empty,
    #[error("the configuration is not UTF-8: byte {byte} is wrong")]
    NotUtf8 { byte: usize },
    #[error("the configuration is not valid JSON: {0}")]
    Json(String),
    #[error("{}", lines(problems, *more))]
    Wrong {
        /// The first ones.
        problems: Vec<Problem>,
        /// How many were left out.
        more: usize,
    },
}

/// One value that is wrong, or one that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands, such as `models[0].gpucacheper`.
    pub path: String,
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

fn lines(problems: &[Problem], more: usize) -> String {
    let mut lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} errors more"));
    }
    lines.join("\n")
}
