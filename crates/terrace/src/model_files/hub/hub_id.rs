//! A model on the hub: `org/name`, `org/name:revision`, `org/name:file.gguf`, or all three parts.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubId {
    /// `org/name`
    pub repo: String,
    /// A branch, a tag or a commit.
    pub revision: String,
    /// The GGUF file that is the model; without it the whole folder is.
    pub file: Option<String>,
}

const DEFAULT_REVISION: &str = "main";

impl HubId {
    /// `None` where the text cannot name a model on the hub.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let repo = parts.next()?;
        let (org, name) = repo.split_once('/')?;
        if !is_part(org) || !is_part(name) {
            return None;
        }
        let id = Self { repo: repo.to_owned(), revision: DEFAULT_REVISION.to_owned(), file: None };
        let id = match (parts.next(), parts.next()) {
            (None, _) => id,
            (Some(file), None) if is_gguf(file) => Self { file: Some(file.to_owned()), ..id },
            (Some(revision), None) => Self { revision: revision.to_owned(), ..id },
            (Some(revision), Some(file)) => {
                Self { revision: revision.to_owned(), file: Some(file.to_owned()), ..id }
            }
        };
        let is_whole = parts.next().is_none() && !id.revision.is_empty();
        (is_whole && id.file.as_deref().is_none_or(is_gguf)).then_some(id)
    }
}

pub fn is_gguf(file: &str) -> bool {
    file.to_ascii_lowercase().ends_with(".gguf")
}

/// What the hub allows in the name of an organisation or a model.
fn is_part(text: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(is_allowed)
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        if self.revision != DEFAULT_REVISION {
            write!(f, ":{}", self.revision)?;
        }
        match &self.file {
            Some(file) => write!(f, ":{file}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, revision: &str, file: Option<&str>) {
        let id = HubId::parse(text).expect("an id");
        assert_eq!(id.repo, "org/a-name.1");
        assert_eq!((id.revision.as_str(), id.file.as_deref()), (revision, file));
        assert_eq!(id.to_string(), text);
    }

    #[test]
    fn an_id_has_up_to_three_parts() {
        check("org/a-name.1", "main", None);
        check("org/a-name.1:v2", "v2", None);
        check("org/a-name.1:q4.gguf", "main", Some("q4.gguf"));
        check("org/a-name.1:v2:folder/q4.GGUF", "v2", Some("folder/q4.GGUF"));
    }

    #[test]
    fn paths_and_names_are_no_ids() {
        for text in [
            "smollm2",
            "./a",
            "../a",
            "/a/b",
            "a/b/c",
            "a/",
            "/a",
            "~/a",
            "a b/c",
            "a/b:",
            "a/b:v:x",
            "a/b:v:q.gguf:x",
            "",
        ] {
            assert_eq!(HubId::parse(text), None, "{text}");
        }
    }
}
