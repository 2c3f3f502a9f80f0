//! A model repository in an object store.
//!
//! Of a model that is loaded, configuration, networks and dense weights are copied to a folder of
//! its own; tables are read where they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use terrace_embedding::StoredFile as _;

use super::repository_folder::{ModelFolder, is_name};
use crate::open_folder::OBJECTS;

pub struct ObjectRepository {
    /// Without a slash at its end.
    url: String,
}

/// Of what is copied; the largest dense parts have some hundred megabytes.
const FILE_BYTES_MOST: u64 = 16 << 30;

impl ObjectRepository {
    pub fn new(url: &str) -> Self {
        ObjectRepository { url: url.trim_end_matches('/').to_owned() }
    }

    /// Folders that have a configuration or a version.
    pub fn names(&self) -> Result<Vec<String>> {
        let paths = self.list(&self.url)?;
        let name = |path: &String| {
            let (name, rest) = path.split_once('/')?;
            let (first, behind) = rest.split_once('/').unwrap_or((rest, ""));
            let is_version = !behind.is_empty() && first.parse::<u64>().is_ok();
            let is_model = rest == "config.pbtxt" || is_version;
            (is_model && is_name(name)).then(|| name.to_owned())
        };
        let names: BTreeSet<String> = paths.iter().filter_map(name).collect();
        Ok(names.into_iter().collect())
    }

    pub fn model(&self, name: &str) -> Result<ModelFolder> {
        if !is_name(name) {
            bail!("{name:?} is no name of a model");
        }
        let url = format!("{}/{name}", self.url);
        let paths = self.list(&url)?;
        if paths.is_empty() {
            bail!("the repository {} has no model {name:?}", self.url);
        }
        let copy = TempDir::new().context("cannot make a folder for a model's files")?;
        for path in &paths {
            let parts: Vec<&str> = path.split('/').collect();
            match parts.iter().position(|part| part.contains("_sparse_")) {
                Some(table) => fs::create_dir_all(copy.path().join(parts[..=table].join("/")))?,
                None => fetch(&format!("{url}/{path}"), &copy.path().join(path))?,
            }
        }
        Ok(ModelFolder::of_copy(name, copy, Some(url)))
    }

    fn list(&self, url: &str) -> Result<Vec<String>> {
        OBJECTS.list_files(url).with_context(|| format!("cannot list {url}"))
    }
}

fn fetch(url: &str, to: &Path) -> Result<()> {
    let fetch = || -> Result<()> {
        let file = OBJECTS.open_file(url)?;
        let bytes = file.bytes();
        if bytes > FILE_BYTES_MOST {
            bail!("it has {bytes} bytes; at most {FILE_BYTES_MOST} are copied");
        }
        let mut content = vec![0; usize::try_from(bytes)?];
        file.read_at(0, &mut content)?;
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(fs::write(to, content)?)
    };
    fetch().with_context(|| format!("cannot fetch {url}"))
}
