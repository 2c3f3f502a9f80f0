//! A folder with an adapter, for the model that fuzzers of safetensors start from.

use std::sync::{Arc, LazyLock};

use terrace_model::{Adapter, DecoderSpec, DecoderTensors, Families, ModelConfig, Weights};

use crate::{files, model};

const FILES: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// Its weights stay mapped when its folder is gone.
static MODEL: LazyLock<(DecoderSpec, DecoderTensors)> = LazyLock::new(|| {
    let input = include_bytes!("../../../fuzz/corpus/safetensors/good-llama");
    let files = files::sections(input, &["config.json", "model.safetensors"]);
    let folder = files::folder(&files);
    let config = ModelConfig::from_json(&String::from_utf8_lossy(files[0].1));
    let weights = Weights::open_safetensors(folder.path()).expect("good inputs are accepted");
    Families::known().read(&config.expect("JSON"), &weights).expect("good inputs are accepted")
});

pub fn run(input: &[u8]) -> bool {
    let folder = files::folder(&files::sections(input, &FILES));
    let (spec, tensors) = &*MODEL;
    let Ok(adapter) = Adapter::open(folder.path(), spec) else { return false };
    let written = folder.path().join("written");
    adapter.write(&written).expect("the folder can be written");
    let again = Adapter::open(&written, spec).expect("it was written here");
    assert!(again.products().eq(adapter.products()), "branches are lost");
    let tensors = DecoderTensors { adapter: Some(Arc::new(adapter)), ..tensors.clone() };
    model::run_decoder(spec.clone(), tensors).is_ok()
}
