//! One line that breaks a rule, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: PathBuf,
    /// Counted from 1; 0 speaks of the whole file.
    pub line: usize,
    pub message: String,
}

impl Finding {
    pub fn new(path: &Path, line: usize, message: String) -> Self {
        Self { path: path.to_owned(), line, message }
    }

    /// One for each line and each of the words that it contains.
    pub fn of_words(
        path: &Path,
        text: &str,
        words: &[&str],
        message: impl Fn(&str) -> String,
    ) -> Vec<Self> {
        let found = |(index, line): (usize, &str)| {
            let words = words.iter().filter(move |&&word| line.contains(word));
            words.map(|word| Self::new(path, index + 1, message(word))).collect::<Vec<_>>()
        };
        text.lines().enumerate().flat_map(found).collect()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.line {
            0 => write!(f, "{path}: {}", self.message),
            line => write!(f, "{path}:{line}: {}", self.message),
        }
    }
}
