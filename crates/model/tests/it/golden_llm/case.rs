//! One golden case: a tiny model and what the original implementation made of three prompts.

use std::path::{Path, PathBuf};

use terrace_kernels::Ops;
use terrace_model::{Decoder, DecoderSpec, DecoderTensors, Error, Families, ModelConfig, Weights};
use terrace_testkit::GoldenFile;

pub struct Case {
    pub spec: DecoderSpec,
    pub tensors: DecoderTensors,
    pub prompts: Vec<GoldenPrompt>,
}

pub struct GoldenPrompt {
    pub input_ids: Vec<u32>,
    pub greedy_ids: Vec<u32>,
    /// After each token of the prompt.
    logits: Vec<Vec<f32>>,
    /// From which each greedy token was taken.
    greedy_logits: Vec<Vec<f32>>,
}

impl Case {
    pub fn decoder(&self, ops: &Ops) -> Decoder {
        let (spec, tensors) = (self.spec.clone(), self.tensors.clone());
        Decoder::place(spec, tensors, ops, || {}).expect("the CPU takes all")
    }

    /// The case's configuration in each style it was written in.
    pub fn config_files(folder: &Path) -> Vec<PathBuf> {
        let styles = ["config.json", "config_v5.json"];
        styles.iter().map(|name| folder.join(name)).filter(|path| path.exists()).collect()
    }

    pub fn open(folder: &Path, config: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(config).expect("a readable configuration");
        let config = ModelConfig::from_json(&text)?;
        let weights = Weights::open_safetensors(folder)?;
        let (spec, tensors) = Families::known().read(&config, &weights)?;
        let golden = GoldenFile::open(&folder.join("golden.safetensors"));
        let prompts = (0..)
            .map(|index| format!("p{index}"))
            .take_while(|prompt| golden.has(&format!("{prompt}.input_ids")))
            .map(|prompt| GoldenPrompt {
                input_ids: golden.ids(&format!("{prompt}.input_ids")),
                greedy_ids: golden.ids(&format!("{prompt}.greedy_ids")),
                logits: golden.rows(&format!("{prompt}.logits")),
                greedy_logits: golden.rows(&format!("{prompt}.greedy_logits")),
            })
            .collect();
        Ok(Case { spec, tensors, prompts })
    }
}

impl GoldenPrompt {
    /// The logits after the token at `position` of prompt and continuation.
    pub fn expected(&self, position: usize) -> &[f32] {
        match self.logits.get(position) {
            Some(row) => row,
            None => &self.greedy_logits[position + 1 - self.input_ids.len()],
        }
    }
}
