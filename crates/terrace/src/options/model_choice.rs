//! A model as it is asked for: `PATH_OR_NAME`, or `NAME=PATH_OR_NAME` to serve it under a name.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    /// The name under which it is served; left out, the model's own.
    pub name: Option<String>,
    pub source: String,
}

impl ModelChoice {
    /// For the command line. A path that exists wins, even with an equals sign in it.
    pub fn parse(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once('=') {
            Some((name, source)) if is_name(name) && !Path::new(text).exists() => {
                Self { name: Some(name.to_owned()), source: source.to_owned() }
            }
            _ => Self { name: None, source: text.to_owned() },
        })
    }
}

/// What stands before an equals sign in a path has a slash, as a rule.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}={}", self.source),
            None => f.write_str(&self.source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: Option<&str>, source: &str) {
        let Ok(choice) = ModelChoice::parse(text);
        assert_eq!((choice.name.as_deref(), choice.source.as_str()), (name, source));
    }

    #[test]
    fn a_name_stands_before_the_equals_sign() {
        check("smollm2", None, "smollm2");
        check("small=smollm2", Some("small"), "smollm2");
        check("small=./a=b.gguf", Some("small"), "./a=b.gguf");
        check("./a=b.gguf", None, "./a=b.gguf");
        check("=a", None, "=a");
    }

    #[test]
    fn a_path_that_exists_wins() {
        let file = tempfile::Builder::new().prefix("a=b").tempfile_in(".").unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap();
        check(name, None, name);
    }
}
