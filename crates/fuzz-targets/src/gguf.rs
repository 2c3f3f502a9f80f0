//! A GGUF file: its metadata, its tensors, and the model they make.

use terrace_model::{GgufFile, ModelConfig, Weights};

use crate::{files, model};

pub fn run(input: &[u8]) -> bool {
    let file = files::file(input);
    let Ok(file) = GgufFile::open(file.path()) else { return false };
    for key in file.keys() {
        let is_text = file.get::<&str>(key).is_ok();
        let is_number = file.get::<f64>(key).is_ok();
        let is_list = file.get::<Vec<&str>>(key).is_ok();
        assert!(u8::from(is_text) + u8::from(is_number) + u8::from(is_list) <= 1, "{key}");
        let _ = (file.get::<Vec<u64>>(key), file.get::<Vec<f64>>(key), file.get::<bool>(key));
    }
    let weights = Weights::from_gguf(&file);
    model::read_tensors(&weights);
    ModelConfig::from_gguf(&file).and_then(|config| model::run(&config, &weights)).is_ok()
}
