//! Answers that a model generates while it is tuned, by the engine that will serve it.
//!
//! The engine has weights of its own, beside those that are tuned, and is there only while it
//! generates.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use terrace_engine::text::{GenerationConfig, LanguageModel, Prompt, TextRequest};
use terrace_engine::{DeviceChoice, InferenceConfig, RequestedKvCache};
use terrace_model::{SpecialTokens, Tokenizer};
use terrace_tune::run::Generate;
use terrace_tune::{Error, Training};

use super::eval_args::SampleArgs;
use super::finetune_args::FinetuneArgs;
use crate::commands::eval::Requests;
use crate::open_model;
use crate::progress;

pub struct EngineSamples<'a> {
    model: &'a str,
    /// Whether what is saved is an adapter, and not a whole model.
    saves_adapters: bool,
    kv_cache: RequestedKvCache,
    device: DeviceChoice,
    args: SampleArgs,
    /// Answers that are generated together.
    batch: usize,
    tokenizer: Arc<Tokenizer>,
}

const PAGE_TOKENS: usize = 16;
const STEP_TOKENS_MOST: usize = 8192;

impl<'a> EngineSamples<'a> {
    pub fn new(
        run: &'a FinetuneArgs,
        args: SampleArgs,
        training: Training,
        kv_cache: RequestedKvCache,
        tokenizer: Arc<Tokenizer>,
    ) -> Self {
        EngineSamples {
            model: &run.model,
            saves_adapters: training != Training::Full,
            kv_cache,
            device: run.devices.device,
            args,
            batch: run.train.micro_batch_size(),
            tokenizer,
        }
    }

    fn answers(&self, saved: &Path, prompts: &[Vec<u32>]) -> Result<Vec<String>> {
        let model = self.start(saved, prompts)?;
        let bar = progress::counted("generating", "answers", 0);
        let requests = Requests::new(&model, bar);
        let ask = |prompt: &Vec<u32>| {
            let request = TextRequest {
                kv_cache: self.kv_cache.clone(),
                ..TextRequest::new(Prompt::Tokens(prompt.clone()), self.generation())
            };
            requests.submit(request)
        };
        let streams = prompts.iter().map(ask).collect::<Result<Vec<_>>>()?;
        let outputs = streams.into_iter().map(|stream| Ok(requests.wait(stream)?.text)).collect();
        requests.finish();
        outputs
    }

    fn start(&self, saved: &Path, prompts: &[Vec<u32>]) -> Result<LanguageModel> {
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(1);
        let model = match self.saves_adapters {
            true => open_model::load(self.model, None, Some(saved))?,
            false => {
                let Some(saved) = saved.to_str() else {
                    bail!("{} is no text, as a model's path must be", saved.display());
                };
                open_model::load(saved, None, None)?
            }
        };
        let config = InferenceConfig {
            device: self.device,
            max_batch_size: self.batch,
            max_input_len: longest,
            // A page more, so that none of a batch waits for room.
            max_output_len: self.args.tokens_most + PAGE_TOKENS,
            block_size: PAGE_TOKENS,
            max_step_tokens: longest.min(STEP_TOKENS_MOST).max(self.batch),
            max_waiting: prompts.len(),
            ..InferenceConfig::default()
        };
        Ok(LanguageModel::start(model, &config, || {})?)
    }

    fn generation(&self) -> GenerationConfig {
        let SampleArgs { tokens_most, temperature, top_k, top_p, .. } = self.args;
        GenerationConfig {
            do_sample: Some(0.0 < temperature),
            temperature: (0.0 < temperature).then_some(temperature),
            top_k,
            top_p,
            max_new_tokens: Some(tokens_most),
            ..GenerationConfig::default()
        }
    }
}

impl Generate for EngineSamples<'_> {
    fn generate(&mut self, saved: &Path, prompts: &[Vec<u32>]) -> Result<Vec<String>, Error> {
        self.answers(saved, prompts).map_err(|error| Error::Generate(format!("{error:#}")))
    }

    fn text(&self, tokens: &[u32]) -> Result<String, Error> {
        Ok(self.tokenizer.decode(tokens, SpecialTokens::Skip)?)
    }
}
