//! One golden case: a tiny model and what the original implementation made of a few prompts.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

use crate::config::ModelConfig;
use crate::decoder::DecoderTensors;
use crate::error::Error;
use crate::families::Families;
use crate::spec::DecoderSpec;
use crate::weights::Weights;

const GOLDEN_FILE: &str = "golden.safetensors";

pub struct GoldenCase {
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

impl GoldenCase {
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
        let text = read(config)?;
        let text = String::from_utf8(text).map_err(|error| malformed(config, error.to_string()))?;
        let config = ModelConfig::from_json(&text)?;
        let weights = Weights::open_safetensors(folder)?;
        let (spec, tensors) = Families::known().read(&config, &weights)?;
        let prompts = read_prompts(&folder.join(GOLDEN_FILE), spec.vocab)?;
        Ok(GoldenCase { spec, tensors, prompts })
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
    let bytes = read(path)?;
    let broken = |problem: String| malformed(path, problem);
    let tensors = SafeTensors::deserialize(&bytes).map_err(|error| broken(error.to_string()))?;
    let mut prompts = Vec::new();
    while tensors.tensor(&format!("p{}.input_ids", prompts.len())).is_ok() {
        let name = |tensor: &str| format!("p{}.{tensor}", prompts.len());
        let prompt = GoldenPrompt {
            input_ids: ids(&tensors, &name("input_ids")).map_err(broken)?,
            greedy_ids: ids(&tensors, &name("greedy_ids")).map_err(broken)?,
            logits: rows(&tensors, &name("logits")).map_err(broken)?,
            greedy_logits: rows(&tensors, &name("greedy_logits")).map_err(broken)?,
        };
        if !prompt.is_whole(vocab) {
            return Err(broken(format!("p{} does not fit itself or the model", prompts.len())));
        }
        prompts.push(prompt);
    }
    if prompts.is_empty() { Err(broken("it has no p0.input_ids".into())) } else { Ok(prompts) }
}

/// A vector of i64 as token ids.
fn ids(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<u32>, String> {
    let tensor = tensors.tensor(name).map_err(|error| format!("{name}: {error}"))?;
    if tensor.dtype() != Dtype::I64 {
        return Err(format!("{name} is stored as {}, not as i64", tensor.dtype()));
    }
    let numbers = tensor.data().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
    let id = |id: i64| u32::try_from(id).map_err(|_| format!("{name}: {id} is no token id"));
    numbers.map(id).collect()
}

/// The rows of an f32 matrix.
fn rows(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<Vec<f32>>, String> {
    let tensor = tensors.tensor(name).map_err(|error| format!("{name}: {error}"))?;
    match (tensor.dtype(), tensor.shape()) {
        (Dtype::F32, &[_, columns]) if columns > 0 => {
            let numbers = tensor.data().as_chunks().0.iter();
            let values: Vec<f32> = numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect();
            Ok(values.chunks(columns).map(<[f32]>::to_vec).collect())
        }
        (dtype, shape) => Err(format!("{name} is {dtype} {shape:?}, not a matrix of f32")),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.into(), source })
}

fn malformed(path: &Path, problem: String) -> Error {
    Error::Malformed { path: path.into(), problem }
}
