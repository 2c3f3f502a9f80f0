//! From a path to a model that can run and speak.

use std::path::Path;
use std::sync::Arc;

use terrace_device::HostMap;

use crate::adapter::Adapter;
use crate::chat_template::{ChatTemplate, SpecialTokenTexts};
use crate::config::ModelConfig;
use crate::decoder::DecoderTensors;
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::families::Families;
use crate::files::{name_of, read_text};
use crate::fingerprint::{HashStore, WeightsHashing};
use crate::gguf::GgufFile;
use crate::tokenizer::Tokenizer;
use crate::weights::Weights;

/// A model, as its files give it.
pub struct LoadedModel {
    /// The file's or folder's name.
    pub name: String,
    pub spec: DecoderSpec,
    pub tensors: DecoderTensors,
    /// Bytes of the weights; they are mapped, and read when first used.
    pub weight_bytes: u64,
    pub text: ModelText,
    /// Where hashes of weights are kept from one start to the next; nowhere unless it is set.
    pub hash_store: Option<HashStore>,
    files: Vec<Arc<HostMap>>,
}

/// How a model reads and writes.
pub struct ModelText {
    pub tokenizer: Tokenizer,
    pub chat_template: Option<ChatTemplate>,
    /// Tokens that end an output.
    pub eos: Vec<u32>,
    /// The text of the model's `generation_config.json`.
    pub generation_config: Option<String>,
}

impl LoadedModel {
    /// Opens a GGUF file, or a folder with `config.json`, `tokenizer.json` and safetensors.
    pub fn open(path: &Path, families: &Families) -> Result<Self, Error> {
        if path.is_dir() { open_folder(path, families) } else { open_gguf(path, families) }
    }

    fn new(
        path: &Path,
        families: &Families,
        config: &ModelConfig,
        weights: &Weights,
        text: ModelText,
    ) -> Result<Self, Error> {
        let (spec, tensors) = families.read(config, weights)?;
        Ok(LoadedModel {
            name: name_of(path),
            spec,
            tensors,
            weight_bytes: weights.total_bytes(),
            text,
            hash_store: None,
            files: weights.files(),
        })
    }

    /// The same model with another tokenizer, which must have no ids that the model does not know.
    /// Its chat template replaces the model's, if it has one; its end-of-sequence ids are added.
    pub fn with_tokenizer(mut self, tokenizer: Tokenizer) -> Result<Self, Error> {
        let (tokens, vocab) = (tokenizer.vocab_size(), self.spec.vocab);
        if vocab < tokens {
            return Err(Error::TokenizerTooLarge { tokens, vocab });
        }
        self.text.eos.extend(tokenizer.eos());
        self.text.eos.sort_unstable();
        self.text.eos.dedup();
        self.text.chat_template = chat_template(&tokenizer).or(self.text.chat_template);
        self.text.tokenizer = tokenizer;
        Ok(self)
    }

    /// The same model with the branches of an adapter, which must be of its shapes.
    pub fn with_adapter(mut self, adapter: Adapter) -> Result<Self, Error> {
        adapter.check(&self.spec)?;
        self.tensors.adapter = Some(Arc::new(adapter));
        Ok(self)
    }

    /// Bytes of the model's files.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len() as u64).sum()
    }

    /// Starts hashing the weights, unless the store knows their hash.
    pub fn hash_weights(&self) -> WeightsHashing {
        WeightsHashing::start(self.files.clone(), self.hash_store.clone())
    }

    /// Reads the files in, so that the first output need not wait for the disk. `progress` is given
    /// the bytes read since its last call. Not for models larger than free memory.
    pub fn read_ahead(&self, mut progress: impl FnMut(u64)) {
        for file in &self.files {
            file.read_ahead(|bytes| progress(bytes as u64));
        }
    }
}

fn open_gguf(path: &Path, families: &Families) -> Result<LoadedModel, Error> {
    let file = GgufFile::open(path)?;
    let config = ModelConfig::from_gguf(&file)?;
    let weights = Weights::from_gguf(&file);
    let text = ModelText::new(Tokenizer::from_gguf(&file)?);
    LoadedModel::new(path, families, &config, &weights, text)
}

fn open_folder(folder: &Path, families: &Families) -> Result<LoadedModel, Error> {
    let config = ModelConfig::from_json(&read_text(&folder.join("config.json"))?)?;
    let weights = Weights::open_safetensors(folder)?;
    let mut text = ModelText::new(Tokenizer::from_file(&folder.join("tokenizer.json"))?);
    // By id, whichever file named them first.
    text.eos.sort_unstable();
    let generation_config = folder.join("generation_config.json");
    if generation_config.exists() {
        text.generation_config = Some(read_text(&generation_config)?);
    }
    LoadedModel::new(folder, families, &config, &weights, text)
}

impl ModelText {
    fn new(tokenizer: Tokenizer) -> Self {
        ModelText {
            chat_template: chat_template(&tokenizer),
            eos: tokenizer.eos().to_vec(),
            tokenizer,
            generation_config: None,
        }
    }
}

/// The template that came with the tokenizer. One that cannot be read is only logged: the model
/// still completes text, and another template may be given.
fn chat_template(tokenizer: &Tokenizer) -> Option<ChatTemplate> {
    let source = tokenizer.chat_template()?;
    let template = ChatTemplate::new(source, SpecialTokenTexts::of(tokenizer));
    template
        .inspect_err(|error| tracing::warn!(%error, "the model's chat template is left out"))
        .ok()
}
