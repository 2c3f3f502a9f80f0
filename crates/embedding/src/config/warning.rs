//! What is not as its writer may think in a configuration that can be used.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Nothing reads this key.
    Unknown { path: String, nearest: Option<&'static str> },
    /// HugeCTR reads these keys; here they change nothing.
    NoEffect { paths: Vec<String> },
    /// A JSON object has the key twice; the last one counts.
    GivenTwice { path: String },
    /// It acts otherwise than it reads.
    Note { path: String, text: String },
    /// So many warnings were left out.
    More { count: usize },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Unknown { path, nearest: Some(nearest) } => {
                write!(f, "{path}: not known; did you mean {nearest}?")
            }
            Warning::Unknown { path, nearest: None } => write!(f, "{path}: not known"),
            Warning::NoEffect { paths } => {
                write!(f, "{}: accepted, has no effect here", paths.join(", "))
            }
            Warning::GivenTwice { path } => {
                write!(f, "{path}: given twice; the last one counts")
            }
            Warning::Note { path, text } => write!(f, "{path}: {text}"),
            Warning::More { count } => write!(f, "and {count} warnings more"),
        }
    }
}
