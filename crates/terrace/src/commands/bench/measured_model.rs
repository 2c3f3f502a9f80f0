//! What a measurement runs: a model's files, or a shape with random weights.

use std::path::Path;

use anyhow::{Result, bail};
use terrace_engine::{ModelParts, WeightSource};
use terrace_kernels::WeightFormat;
use terrace_model::{DecoderSpec, KnownShape, LoadedModel, ModelText, Tokenizer};

use super::bench_options::BenchOptions;
use crate::open_model;

pub struct MeasuredModel {
    pub name: String,
    pub spec: DecoderSpec,
    pub weights: WeightSource,
    /// A shape has none.
    text: Option<ModelText>,
}

impl MeasuredModel {
    /// `tokens` are those of the longest sequence to be measured; a shape, which was trained for
    /// no length, takes any.
    pub fn open(measured: &BenchOptions, tokens: usize) -> Result<Self> {
        let adapter = measured.engine.adapter.as_deref();
        match (measured.shape.shape, adapter) {
            (Some(_), Some(_)) => {
                bail!("--adapter is of a model's files; a shape has random weights: leave one out")
            }
            (Some(known), None) => Self::of_shape(known, measured.shape.weights, tokens),
            (None, _) => Self::of_files(&measured.engine.only_model()?.source, adapter),
        }
    }

    /// With something that makes text of its tokens; of a shape's, their numbers.
    pub fn into_parts(self) -> ModelParts {
        let MeasuredModel { name, spec, weights, text } = self;
        let text = text.unwrap_or_else(|| ModelText {
            tokenizer: Tokenizer::numbered(spec.vocab),
            chat_template: None,
            eos: Vec::new(),
            generation_config: None,
        });
        ModelParts { name, spec, weights, text }
    }

    fn of_shape(shape: KnownShape, format: WeightFormat, tokens: usize) -> Result<Self> {
        let (name, block) = (format.name(), format.block_weights());
        for width in [shape.hidden, shape.heads * shape.head_dim, shape.ffn_width] {
            if !width.is_multiple_of(block) {
                bail!(
                    "{name} stores blocks of {block} weights, {} has rows of {width}",
                    shape.name
                );
            }
        }
        let mut spec = shape.spec();
        spec.context_tokens = spec.context_tokens.max(tokens);
        let weights = WeightSource::Random(format);
        Ok(MeasuredModel { name: shape.name.into(), spec, weights, text: None })
    }

    fn of_files(model: &str, adapter: Option<&Path>) -> Result<Self> {
        let model = open_model::load(model, None, adapter)?;
        let hash = model.hash_weights();
        let LoadedModel { name, spec, tensors, text, .. } = model;
        let weights = WeightSource::Files { tensors, hash };
        Ok(MeasuredModel { name, spec, weights, text: Some(text) })
    }
}
