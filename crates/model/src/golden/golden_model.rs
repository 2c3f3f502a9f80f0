//! One golden case: a tiny model and what the original implementation made of a few prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_golden::{GoldenFileError, GoldenTensors};

use crate::adapter::Adapter;
use crate::config::ModelConfig;
use crate::decoder::DecoderTensors;
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::families::Families;
use crate::files::read_text;
use crate::weights::Weights;

const GOLDEN_FILE: &str = "golden.safetensors";

pub struct GoldenModel {
    pub spec: DecoderSpec,
    pub tensors: DecoderTensors,
    pub prompts: Vec<GoldenPrompt>,
}

pub struct GoldenPrompt {
    pub input_ids: Vec<u32>,
    /// The most probable continuation.
    pub greedy_ids: Vec<u32>,
    /// After each token of the prompt.
    pub logits: Vec<Vec<f32>>,
    /// From which each greedy token was taken.
    greedy_logits: Vec<Vec<f32>>,
}

impl GoldenModel {
    /// Whether a folder holds a case.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(GOLDEN_FILE).is_file()
    }

    /// The case's configuration in each style it was written in.
    pub fn config_files(folder: &Path) -> Vec<PathBuf> {
        let styles = ["config.json", "config_v5.json"];
        styles.iter().map(|name| folder.join(name)).filter(|path| path.exists()).collect()
    }

    pub fn open(folder: &Path, config: &Path) -> Result<Self, Error> {
        let config = ModelConfig::from_json(&read_text(config)?)?;
        let weights = Weights::open_safetensors(folder)?;
        let (spec, tensors) = Families::known().read(&config, &weights)?;
        let prompts = read_prompts(&folder.join(GOLDEN_FILE), spec.vocab)?;
        Ok(GoldenModel { spec, tensors, prompts })
    }

    /// The same model with the adapter of a folder, which has prompts of its own.
    pub fn with_adapter(mut self, folder: &Path) -> Result<Self, Error> {
        let adapter = Adapter::open(folder, &self.spec)?;
        self.tensors.adapter = Some(Arc::new(adapter));
        self.prompts = read_prompts(&folder.join(GOLDEN_FILE), self.spec.vocab)?;
        Ok(self)
    }
}

impl GoldenPrompt {
    /// Tokens of prompt and continuation.
    pub fn tokens(&self) -> usize {
        self.input_ids.len() + self.greedy_ids.len()
    }

    /// The logits after the token at `position` of prompt and continuation.
    pub fn expected(&self, position: usize) -> &[f32] {
        match self.logits.get(position) {
            Some(row) => row,
            None => &self.greedy_logits[position + 1 - self.input_ids.len()],
        }
    }

    fn is_whole(&self, vocab: usize) -> bool {
        let mut ids = self.input_ids.iter().chain(&self.greedy_ids);
        let mut rows = self.logits.iter().chain(&self.greedy_logits);
        !self.input_ids.is_empty()
            && self.logits.len() == self.input_ids.len()
            && self.greedy_logits.len() == self.greedy_ids.len()
            && ids.all(|&id| (id as usize) < vocab)
            && rows.all(|row| row.len() == vocab)
    }
}

fn read_prompts(path: &Path, vocab: usize) -> Result<Vec<GoldenPrompt>, Error> {
    let tensors = GoldenTensors::read(path)?;
    let mut prompts = Vec::new();
    while tensors.has(&format!("p{}.input_ids", prompts.len())) {
        let name = |field: &str| format!("p{}.{field}", prompts.len());
        let prompt = GoldenPrompt {
            input_ids: ids(&tensors, &name("input_ids"))?,
            greedy_ids: ids(&tensors, &name("greedy_ids"))?,
            logits: rows(&tensors, &name("logits"))?,
            greedy_logits: rows(&tensors, &name("greedy_logits"))?,
        };
        if !prompt.is_whole(vocab) {
            let problem = format!("p{} does not fit itself or the model", prompts.len());
            return Err(tensors.malformed(problem).into());
        }
        prompts.push(prompt);
    }
    match prompts.is_empty() {
        true => Err(tensors.malformed("it has no p0.input_ids".into()).into()),
        false => Ok(prompts),
    }
}

/// A vector of i64 as token ids.
fn ids(tensors: &GoldenTensors, name: &str) -> Result<Vec<u32>, GoldenFileError> {
    let id = |&id: &i64| {
        u32::try_from(id).map_err(|_| tensors.malformed(format!("{name}: {id} is no token id")))
    };
    tensors.i64s(name)?.iter().map(id).collect()
}

/// The rows of an f32 matrix.
fn rows(tensors: &GoldenTensors, name: &str) -> Result<Vec<Vec<f32>>, GoldenFileError> {
    let [_, columns] = tensors.dims(name)?;
    let columns = columns.max(1);
    Ok(tensors.f32s(name)?.chunks(columns).map(<[f32]>::to_vec).collect())
}
