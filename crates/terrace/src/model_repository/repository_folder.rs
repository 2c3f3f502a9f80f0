//! A model repository in a folder: one folder for each model, in it one for each version.
//!
//! What is read stays in the folder: a link that leads out of it is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use tempfile::TempDir;
use terrace_embedding::ModelPath;
use terrace_server::kserve::{ModelConfig, read_model_config};

pub struct RepositoryFolder {
    /// Without links.
    root: PathBuf,
}

/// One model of a repository.
pub struct ModelFolder {
    pub name: String,
    pub path: PathBuf,
    /// Where `path` is a copy, which goes with this.
    copy: Option<FolderCopy>,
}

struct FolderCopy {
    _folder: TempDir,
    /// Where its tables are, which are not copied.
    url: Option<String>,
}

const CONFIG: &str = "config.pbtxt";
/// Of a configuration; Triton's largest have some kilobytes.
const CONFIG_BYTES_MOST: u64 = 4 << 20;
const NAME_CHARS_MOST: usize = 120;

impl RepositoryFolder {
    pub fn open(path: &Path) -> Result<Self> {
        let root = path.canonicalize();
        let root = root.with_context(|| format!("cannot open the model repository {path:?}"))?;
        if !root.is_dir() {
            bail!("{} is no folder; a model repository is one", path.display());
        }
        Ok(RepositoryFolder { root })
    }

    /// Folders that have a configuration or a version.
    pub fn names(&self) -> Result<Vec<String>> {
        let listed = std::fs::read_dir(&self.root);
        let listed = listed.with_context(|| format!("cannot read {}", self.root.display()))?;
        let mut names = Vec::new();
        for entry in listed {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| is_name(name)) else { continue };
            let has_config = path.join(CONFIG).is_file();
            if path.is_dir() && (has_config || !versions(&path)?.is_empty()) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    pub fn model(&self, name: &str) -> Result<ModelFolder> {
        if !is_name(name) {
            bail!(
                "{name:?} is no name of a model: letters, digits, _ and -, up to {NAME_CHARS_MOST}"
            );
        }
        let path = self.root.join(name);
        if !path.is_dir() {
            let known = self.names()?.join(", ");
            bail!("the repository {} has no model {name:?}; it has {known}", self.root.display());
        }
        let model = ModelFolder::at(name, &path);
        check_links(&self.root, &model.path, 0)?;
        Ok(model)
    }
}

impl ModelFolder {
    pub fn at(name: &str, path: &Path) -> Self {
        ModelFolder { name: name.to_owned(), path: path.to_owned(), copy: None }
    }

    /// A copy of files; folders of tables in it are empty where they are at a URL.
    pub fn of_copy(name: &str, folder: TempDir, url: Option<String>) -> Self {
        let path = folder.path().to_owned();
        ModelFolder { name: name.to_owned(), path, copy: Some(FolderCopy { _folder: folder, url }) }
    }

    /// Files that were sent with a request; their paths are below the folder.
    pub fn of_files(name: &str, files: &BTreeMap<String, Bytes>) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a folder for a model's files")?;
        for (path, content) in files {
            let to = folder.path().join(path);
            let write = || -> std::io::Result<()> {
                std::fs::create_dir_all(to.parent().unwrap_or(folder.path()))?;
                std::fs::write(&to, content)
            };
            write().with_context(|| format!("cannot write the file {path:?} that was sent"))?;
        }
        Ok(Self::of_copy(name, folder, None))
    }

    /// Where a table's files are.
    pub fn origin(&self, path: &Path) -> ModelPath {
        let url = self.copy.as_ref().and_then(|copy| copy.url.as_ref());
        let below = path.strip_prefix(&self.path).ok().and_then(|below| below.to_str());
        match (url, below) {
            (Some(url), Some(below)) => ModelPath::ObjectStore(format!("{url}/{below}")),
            _ => ModelPath::Local(path.to_owned()),
        }
    }

    /// What `config.pbtxt` says; a model may go without one.
    pub fn config(&self) -> Result<ModelConfig> {
        let path = self.path.join(CONFIG);
        if !path.exists() {
            return Ok(ModelConfig { name: self.name.clone(), ..ModelConfig::default() });
        }
        let read = || -> Result<String> {
            let bytes = path.metadata()?.len();
            if bytes > CONFIG_BYTES_MOST {
                bail!("it has {bytes} bytes; at most {CONFIG_BYTES_MOST} are read");
            }
            Ok(std::fs::read_to_string(&path)?)
        };
        let text = read().with_context(|| format!("cannot read {}", path.display()))?;
        let config = read_model_config(&text).map_err(anyhow::Error::msg);
        let mut config = config.with_context(|| format!("cannot use {}", path.display()))?;
        match config.name.as_str() {
            "" => config.name.clone_from(&self.name),
            name if name != self.name => {
                bail!(
                    "{} says that the model is called {name:?}, and its folder {:?}",
                    path.display(),
                    self.name
                );
            }
            _ => {}
        }
        Ok(config)
    }

    /// In ascending order.
    pub fn versions(&self) -> Result<Vec<u64>> {
        let found = versions(&self.path)?;
        if found.is_empty() {
            bail!("{} has no version; its files lie in a folder 1/", self.path.display());
        }
        Ok(found)
    }
}

pub fn is_name(name: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= NAME_CHARS_MOST && name.chars().all(is_char)
}

/// Folders whose names are whole numbers from 1 on.
fn versions(folder: &Path) -> Result<Vec<u64>> {
    let listed = std::fs::read_dir(folder);
    let listed = listed.with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in listed {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.parse::<u64>().ok().filter(|number| *number > 0);
        if let Some(number) = number.filter(|number| number.to_string() == name && path.is_dir()) {
            found.push(number);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Folders in folders; a version has two levels.
const DEPTH_MOST: usize = 16;

fn check_links(root: &Path, folder: &Path, depth: usize) -> Result<()> {
    if depth > DEPTH_MOST {
        bail!("{} is {depth} folders deep; at most {DEPTH_MOST} are looked into", folder.display());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_symlink() {
            let target = path.canonicalize();
            let target = target.with_context(|| format!("{} is a broken link", path.display()))?;
            if !target.starts_with(root) {
                bail!(
                    "{} leads to {}, out of the repository {}; put the files there",
                    path.display(),
                    target.display(),
                    root.display()
                );
            }
        } else if kind.is_dir() {
            check_links(root, &path, depth + 1)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> (tempfile::TempDir, RepositoryFolder) {
        let folder = tempfile::tempdir().expect("a folder");
        for path in ["dcn/1", "dcn/10", "dcn/2", "dcn/x", "dcn/01", "other/sub", "no config"] {
            std::fs::create_dir_all(folder.path().join(path)).expect("a folder");
        }
        std::fs::write(folder.path().join("other").join(CONFIG), "max_batch_size: 4")
            .expect("a file");
        std::fs::write(folder.path().join("ps.json"), "{}").expect("a file");
        let opened = RepositoryFolder::open(folder.path()).expect("it opens");
        (folder, opened)
    }

    #[test]
    fn models_and_versions_are_found() {
        let (_folder, repository) = repository();
        assert_eq!(repository.names().expect("they are listed"), ["dcn", "other"]);
        let dcn = repository.model("dcn").expect("it is there");
        assert_eq!(dcn.versions().expect("they are listed"), [1, 2, 10]);
        assert_eq!(dcn.config().expect("none is needed").name, "dcn");
        let other = repository.model("other").expect("it is there");
        assert_eq!(other.config().expect("it is read").max_batch_size, 4);
        let error = other.versions().expect_err("it has none");
        assert!(error.to_string().contains("has no version"), "{error}");
        for name in ["../dcn", "", "a/b", "dcn/1", "nobody"] {
            assert!(repository.model(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_configuration_of_another_name_is_refused() {
        let (folder, repository) = repository();
        std::fs::write(folder.path().join("dcn").join(CONFIG), "name: \"dlrm\"").expect("a file");
        let error = repository.model("dcn").expect("it is there").config().expect_err("two names");
        assert!(error.to_string().contains("called \"dlrm\""), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_repository_are_refused() {
        let (folder, repository) = repository();
        let elsewhere = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("dcn/1/inside");
        std::os::unix::fs::symlink(folder.path().join("other"), inside).expect("a link");
        assert!(repository.model("dcn").is_ok(), "it may lead to another place of the repository");
        let link = folder.path().join("dcn/1/secret");
        std::os::unix::fs::symlink(elsewhere.path(), link).expect("a link");
        let error = repository.model("dcn").err().expect("it leads out");
        assert!(error.to_string().contains("out of the repository"), "{error}");
        assert_eq!(repository.names().expect("others are listed"), ["dcn", "other"]);
    }
}
