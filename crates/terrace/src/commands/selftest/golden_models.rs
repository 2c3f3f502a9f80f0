//! Whole models with selective KV caches, through the engine, against the original's runs.
//!
//! The rows of a run's batch are requests side by side. What the model thinks of every token at
//! the last positions of the prompt must be the original's: it has seen what stayed alone.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use terrace_engine::{
    ComputeChoice, DeviceChoice, EngineSetup, InferenceConfig, KwArg, Lengths, Precision, Priority,
    Request, RequestId, RequestRetention, RequestedKvCache, SamplingParams, Task, TokenEvent,
    TokenLogprobs, WeightSource,
};
use terrace_golden::{GoldenCase, GoldenFolder, GoldenTensors, SetFindings};
use terrace_model::WeightsHash;
use terrace_tune::golden::LitGptConfig;

/// Layers and a head come after attention, and angles of long contexts are rounded.
const TOLERANCE: f32 = 1e-4;
/// Tokens of a page.
const PAGES: [usize; 3] = [1, 16, 64];

#[derive(Clone, Debug, Deserialize)]
struct ModelRun {
    weights: String,
    config: LitGptConfig,
    batch_size: usize,
    yarn: bool,
    cache_name: String,
    cache_length: usize,
    chunk_size: usize,
    cache_kwargs: BTreeMap<String, KwArg>,
    /// Smallest difference of scores that decided.
    min_score_gap: Option<f32>,
}

pub fn check(folder: &GoldenFolder, device: DeviceChoice, threads: usize) -> Result<SetFindings> {
    let mut findings = SetFindings::new("model", TOLERANCE);
    for case in folder.cases::<ModelRun>("model_run")? {
        if let Some(why) = case.about.cannot_be_served() {
            findings.left_out.push(format!("{}: {why}", case.name));
            continue;
        }
        findings.cases += 1;
        let weights = folder.tensors(&case.about.weights)?;
        for block_size in PAGES {
            let config = InferenceConfig {
                device,
                dtype: Precision::Fp32,
                compute: ComputeChoice::F32,
                threads: Some(threads),
                block_size,
                max_batch_size: case.about.batch_size,
                max_output_len: 1,
                ..InferenceConfig::default()
            };
            check_run(&case, &weights, config, &mut findings).with_context(|| case.name.clone())?;
        }
    }
    findings.close.dedup();
    Ok(findings)
}

impl ModelRun {
    fn cannot_be_served(&self) -> Option<&'static str> {
        if !self.config.is_known() {
            return Some("no family has such layers");
        }
        if !self.cache_name.ends_with("-default") {
            return Some("its buffer is quantised after a step, ours before");
        }
        if self.cache_kwargs.contains_key("grace_period") {
            return Some("its newest tokens inherit scores, ours start at 0");
        }
        let sums = self.cache_name.starts_with("h2o-orig") && self.batch_size > 1;
        sums.then_some("it sums over the rows of a batch, which are requests here")
    }

    /// The cache as the original has it where nothing is said: no token is protected, no grace, and
    /// scores are sums.
    fn requested(&self) -> RequestedKvCache {
        let scored = !self.cache_name.starts_with("lastrec") && self.cache_name != "dense-default";
        let aged = scored && !self.cache_name.starts_with("h2o-orig");
        let normalize = self.cache_kwargs.contains_key("normalize_scores");
        RequestedKvCache {
            name: Some(self.cache_name.clone()),
            cache_length: Some(Lengths::One(self.cache_length)),
            chunk_size: Some(self.chunk_size),
            cache_kwargs: self.cache_kwargs.clone(),
            init_grace_tokens: scored.then_some(0),
            grace_period: aged.then_some(0),
            normalize_scores: (aged && !normalize).then_some(false),
            ..RequestedKvCache::default()
        }
    }
}

fn check_run(
    case: &GoldenCase<ModelRun>,
    weights: &GoldenTensors,
    config: InferenceConfig,
    findings: &mut SetFindings,
) -> Result<()> {
    let run = &case.about;
    let [rows, tokens] = case.tensors.dims("input_ids")?;
    let ids = case.tensors.i32("input_ids", [rows, tokens])?;
    let spec = run.config.spec(tokens, run.yarn)?;
    let tensors = run.config.tensors(weights)?;
    let hash = WeightsHash::of_tensors(&tensors).into();
    let weights = WeightSource::Files { tensors, hash };
    let config = InferenceConfig { max_input_len: tokens, ..config };
    let setup = EngineSetup::new(spec, weights, &config, || {})?;
    let (mut engine, requested, vocab) =
        (setup.engine, run.requested(), run.config.padded_vocab_size);
    let mut outputs: BTreeMap<RequestId, Vec<Vec<f32>>> = BTreeMap::new();
    for ids in ids.chunks_exact(tokens) {
        let prompt: Vec<u32> = ids.iter().map(|id| *id as u32).collect();
        let cache = setup.caches.make(&requested, &prompt, None, 0)?;
        let sampling = SamplingParams {
            prompt_logprobs: Some(vocab),
            logprobs: Some(vocab),
            ..SamplingParams::greedy(1)
        };
        let (priority, cache_salt) = (Priority::default(), String::new());
        let task = Task::Generate(sampling);
        let retention = RequestRetention::default();
        let request = Request { prompt, task, priority, cache_salt, cache, retention };
        outputs.insert(engine.submit(request)?, Vec::new());
    }
    while !engine.is_idle() {
        for (id, event) in engine.step() {
            let output = outputs.get_mut(&id).context("an output nobody requested")?;
            match event {
                TokenEvent::Prompt(all) => output.extend(all.iter().flatten().map(by_id)),
                TokenEvent::Token { logprobs, .. } => output.extend(logprobs.iter().map(by_id)),
                TokenEvent::CachedPrompt { .. }
                | TokenEvent::Embedding(_)
                | TokenEvent::Cache(_)
                | TokenEvent::Replay { .. }
                | TokenEvent::Finished { .. } => {}
            }
        }
    }
    let [_, last, _] = case.tensors.dims("logits_by_chunk")?;
    let logits = case.tensors.f32("logits_by_chunk", [rows, last, vocab])?;
    for (row, (output, logits)) in
        outputs.values().zip(logits.chunks_exact(last * vocab)).enumerate()
    {
        if output.len() != tokens || output.iter().any(|found| found.len() != vocab) {
            bail!("row {row}: {} positions of {tokens} were reported", output.len());
        }
        let got: Vec<f32> = output[tokens - last..].concat();
        let want: Vec<f32> = logits.chunks_exact(vocab).flat_map(log_softmax).collect();
        let mut found = SetFindings::new("model", TOLERANCE);
        found.compare(&got, &want, || {
            format!("{} row {row}, pages of {}", case.name, config.block_size)
        });
        findings.add(found, run.min_score_gap);
    }
    Ok(())
}

/// Of all tokens, by id.
fn by_id(logprobs: &TokenLogprobs) -> Vec<f32> {
    let mut all = logprobs.top.clone();
    all.sort_by_key(|(id, _)| *id);
    all.into_iter().map(|(_, logprob)| logprob).collect()
}

fn log_softmax(logits: &[f32]) -> Vec<f32> {
    let total: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
    logits.iter().map(|x| (f64::from(*x) - total.ln()) as f32).collect()
}
