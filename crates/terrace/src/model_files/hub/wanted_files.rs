//! Which files of a repository make a model that can be opened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::model_files::hub::hub_id::is_gguf;

pub const SHARD_INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";

/// Without these a folder is no model.
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];

/// Used where they are there.
const USEFUL: [&str; 3] =
    ["generation_config.json", "tokenizer_config.json", "chat_template.jinja"];

/// What to get of a repository that has `files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Gguf(String),
    /// A folder: these files, and the shards that the index names if it is among them.
    Folder(Vec<String>),
}

impl Wanted {
    pub fn of(files: &[String], file: Option<&str>) -> Result<Self> {
        if let Some(file) = files.iter().find(|file| !stays_inside(file)) {
            bail!("its file {file:?} would lie outside of its folder");
        }
        let has = |name: &str| files.iter().any(|file| file == name);
        let ggufs: Vec<&str> =
            files.iter().map(String::as_str).filter(|file| is_gguf(file)).collect();
        match (file, ggufs.as_slice()) {
            (Some(file), _) if has(file) => return Ok(Self::Gguf(file.to_owned())),
            (Some(file), []) => bail!("it has no file {file}, and no GGUF file at all"),
            (Some(file), ggufs) => bail!("it has no file {file}; it has {}", ggufs.join(", ")),
            (None, [only]) if !has(NEEDED[0]) => return Ok(Self::Gguf((*only).to_owned())),
            (None, [_, _, ..]) if !has(NEEDED[0]) => {
                bail!("it has several GGUF files, name one as ORG/NAME:FILE: {}", ggufs.join(", "))
            }
            (None, _) => {}
        }
        if let Some(missing) = NEEDED.iter().find(|name| !has(name)) {
            bail!("it has no {missing}, which a model needs");
        }
        let Some(weights) = [SHARD_INDEX, WEIGHTS].into_iter().find(|name| has(name)) else {
            bail!("it has neither {WEIGHTS} nor {SHARD_INDEX}: other formats are not read");
        };
        let useful = USEFUL.into_iter().filter(|name| has(name));
        Ok(Self::Folder(
            NEEDED.into_iter().chain([weights]).chain(useful).map(str::to_owned).collect(),
        ))
    }
}

/// The files over which an index spreads the weights.
pub fn shards(index: &[u8]) -> Result<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let index: Index =
        serde_json::from_slice(index).with_context(|| format!("{SHARD_INDEX} is not valid"))?;
    let shards: BTreeSet<String> = index.weight_map.into_values().collect();
    match shards.iter().find(|shard| !stays_inside(shard)) {
        Some(shard) => {
            bail!("the shard {shard:?} of {SHARD_INDEX} would lie outside of its folder")
        }
        None => Ok(shards),
    }
}

/// Names come from the hub and become paths.
fn stays_inside(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    !file.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(files: &str, file: Option<&str>) -> Result<Wanted> {
        let files: Vec<String> = files.split(' ').map(str::to_owned).collect();
        Wanted::of(&files, file)
    }

    #[track_caller]
    fn check_refused(files: &str, file: Option<&str>, want: &str) {
        let error = wanted(files, file).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn a_folder_is_what_the_loader_reads() {
        let files = "README.md config.json model.safetensors tokenizer.json \
                     consolidated.safetensors generation_config.json pytorch_model.bin";
        let want = ["config.json", "tokenizer.json", "model.safetensors", "generation_config.json"];
        let want = Wanted::Folder(want.map(str::to_owned).to_vec());
        assert_eq!(wanted(files, None).unwrap(), want);
    }

    #[test]
    fn one_gguf_is_the_model_and_several_are_a_question() {
        let gguf = |name: &str| Wanted::Gguf(name.to_owned());
        assert_eq!(wanted("README.md a.gguf", None).unwrap(), gguf("a.gguf"));
        assert_eq!(wanted("a.gguf b.gguf", Some("b.gguf")).unwrap(), gguf("b.gguf"));
        check_refused("a.gguf b.gguf", None, "a.gguf, b.gguf");
        check_refused("a.gguf b.gguf", Some("c.gguf"), "it has a.gguf, b.gguf");
        check_refused("README.md", Some("c.gguf"), "no GGUF file at all");
    }

    #[test]
    fn what_is_no_model_is_refused() {
        check_refused("README.md", None, "no config.json");
        check_refused("config.json", None, "no tokenizer.json");
        check_refused("config.json tokenizer.json pytorch_model.bin", None, "neither");
        check_refused("../a.gguf", None, "outside");
        check_refused("/a.gguf", None, "outside");
    }

    #[test]
    fn an_index_names_each_shard_once() {
        let index = br#"{"metadata": {}, "weight_map": {"a": "1", "b": "2", "c": "1"}}"#;
        assert_eq!(shards(index).unwrap().into_iter().collect::<Vec<_>>(), ["1", "2"]);
        assert!(shards(b"{}").is_err());
        assert!(shards(br#"{"weight_map": {"a": "../1"}}"#).is_err());
    }
}
