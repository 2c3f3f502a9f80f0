//! Every type that a model, and its keys and values, can have, through a whole engine.

use terrace_device::DType;
use terrace_engine::text::{GenerationConfig, LanguageModel, TextRequest};
use terrace_engine::{ComputeChoice, InferenceConfig, Precision, TokenId};

use crate::tiny_model::tiny;

/// What one engine gave.
struct Output {
    page_bytes: usize,
    /// Of the prompt's tokens but the first.
    logprobs: Vec<f32>,
    token_ids: Vec<TokenId>,
}

fn run(dtype: Precision, kv_cache_dtype: Option<Precision>) -> Output {
    run_computed(dtype, kv_cache_dtype, ComputeChoice::F32)
}

fn run_computed(
    dtype: Precision,
    kv_cache_dtype: Option<Precision>,
    compute: ComputeChoice,
) -> Output {
    let config = InferenceConfig {
        dtype,
        kv_cache_dtype,
        compute,
        threads: Some(2),
        // Steps are short, so that most of a prompt is read back from its pages.
        max_step_tokens: 8,
        ..InferenceConfig::default()
    };
    let model = LanguageModel::start(tiny(), &config, || {}).expect("an engine");
    let generation = GenerationConfig {
        max_new_tokens: Some(16),
        ignore_eos: Some(true),
        prompt_logprobs: Some(0),
        ..GenerationConfig::default()
    };
    let prompt: Vec<TokenId> = (0..100).map(|i| 3 + (i * i * 7 % 250)).collect();
    let mut stream = model.submit(TextRequest::new(prompt, generation)).expect("it fits");
    let mut token_ids = Vec::new();
    while let Some(event) = stream.next_blocking() {
        token_ids.extend(event.tokens.iter().map(|token| token.id));
    }
    let logprobs = stream.prompt_logprobs().expect("they were asked for").iter().flatten();
    let memory = model.memory();
    Output {
        page_bytes: memory.kv_bytes / memory.kv_pages,
        logprobs: logprobs.map(|token| token.logprob).collect(),
        token_ids,
    }
}

/// `dtype` was the type of keys and values alone.
#[test]
fn fp32_on_the_cpu_computes_in_f32() {
    let (fp32, kv) = (Precision::Fp32, Some(Precision::Fp32));
    let logprobs = |dtype, compute| run_computed(dtype, kv, compute).logprobs;
    let exact = logprobs(fp32, ComputeChoice::F32);
    assert_eq!(logprobs(fp32, ComputeChoice::Auto), exact);
    let fast = logprobs(fp32, ComputeChoice::Fast);
    assert_eq!(logprobs(Precision::Fp16, ComputeChoice::Auto), fast);
}

/// `fp16` was computed in bf16 on a GPU.
#[test]
fn fp16_on_a_gpu_multiplies_in_fp16() {
    let types = |dtype| {
        let config = InferenceConfig { dtype, ..InferenceConfig::default() };
        (config.gpu_activation(), config.page_dtype())
    };
    assert_eq!(types(Precision::Fp16), (DType::F16, DType::F16));
    assert_eq!(types(Precision::Bf16), (DType::Bf16, DType::Bf16));
    assert_eq!(types(Precision::Fp32), (DType::F32, DType::F32));
    assert_eq!(types(Precision::Auto), (DType::Bf16, DType::F16));
    assert_eq!(InferenceConfig::default().dtype, Precision::Auto);
}

#[test]
fn keys_and_values_at_auto_have_the_models_type() {
    for dtype in [Precision::Fp32, Precision::Fp16, Precision::Bf16, Precision::Auto] {
        let follows = InferenceConfig { dtype, ..InferenceConfig::default() };
        let kv_cache_dtype = Some(Precision::Auto);
        let auto = InferenceConfig { kv_cache_dtype, ..follows.clone() };
        assert_eq!(auto.page_dtype(), follows.page_dtype(), "{dtype:?}");
    }
}

#[test]
fn an_engine_runs_with_every_kv_cache_dtype() {
    let exact = run(Precision::Fp32, None);
    assert_eq!((exact.logprobs.len(), exact.token_ids.len()), (99, 16));
    let same = run(Precision::Fp16, Some(Precision::Fp32));
    assert_eq!((same.page_bytes, same.logprobs), (exact.page_bytes, exact.logprobs.clone()));
    // The fewer bits of fraction, the further are log-probabilities from the exact ones.
    let mut nearer = 0.0;
    for dtype in [Precision::Fp16, Precision::Bf16, Precision::Fp8E4m3, Precision::Fp8E5m2] {
        let rounded = run(Precision::Fp32, Some(dtype));
        assert!(rounded.page_bytes < exact.page_bytes, "{dtype:?}: {} bytes", rounded.page_bytes);
        let pairs = rounded.logprobs.iter().zip(&exact.logprobs);
        let mean = pairs.map(|(a, b)| (a - b).abs()).sum::<f32>() / 99.0;
        println!("{dtype:?}: {mean} nats");
        assert!(nearer < mean && mean < 0.5, "{dtype:?}: {mean} nats, with more bits {nearer}");
        nearer = mean;
        assert_eq!(rounded.token_ids.len(), 16, "{dtype:?}");
    }
    for dtype in [Precision::Fp16, Precision::Bf16] {
        let (by_default, named) = (run(dtype, None), run(Precision::Fp32, Some(dtype)));
        assert_eq!(by_default.page_bytes, named.page_bytes, "{dtype:?}");
        assert_eq!(by_default.logprobs, named.logprobs, "{dtype:?}");
    }
}
