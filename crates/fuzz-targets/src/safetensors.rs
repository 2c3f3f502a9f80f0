//! A folder with a configuration and safetensors, in one file or in shards.

use terrace_model::{ModelConfig, Weights};

use crate::{files, model};

const FILES: [&str; 5] =
    ["config.json", "model.safetensors", "model.safetensors.index.json", "a.safetensors", "b"];

pub fn run(input: &[u8]) -> bool {
    let files = files::sections(input, &FILES);
    let folder = files::folder(&files);
    let Ok(weights) = Weights::open_safetensors(folder.path()) else { return false };
    model::read_tensors(&weights);
    let Some((_, config)) = files.iter().find(|(name, _)| *name == "config.json") else {
        return false;
    };
    let config = ModelConfig::from_json(&String::from_utf8_lossy(config));
    config.and_then(|config| model::run(&config, &weights)).is_ok()
}
