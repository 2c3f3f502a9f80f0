//! Which model runs, and with how much memory and how many threads.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use terrace_engine::{InferenceConfig, Precision};

use crate::byte_size::ByteSize;
use crate::options::IdleOptions;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Model and engine")]
pub struct EngineOptions {
    /// The model: a GGUF file, a folder in Hugging Face's layout (config.json, *.safetensors,
    /// tokenizer.json), or a name that `terrace pull` knows, which is pulled if it is not there.
    #[arg(short, long, value_name = "PATH_OR_NAME", default_value = "smollm2-135m-instruct")]
    pub model: String,

    /// Precision in which keys and values are kept: fp16, bf16 or fp32. Weights keep the precision
    /// of their file, and all arithmetic is in fp32.
    #[arg(short, long, value_name = "TYPE", default_value = "fp16", value_parser = precision())]
    dtype: Precision,

    /// Precision of the kept keys and values, where it shall differ from --dtype.
    #[arg(long, value_name = "TYPE", value_parser = precision())]
    kv_cache_dtype: Option<Precision>,

    /// Tokens of one page of keys and values. Prompts share whole pages, so smaller pages share
    /// more and cost a little more to find.
    #[arg(long, value_name = "TOKENS", default_value_t = 16)]
    block_size: usize,

    /// Sequences computed together in one step; more requests wait their turn.
    #[arg(long, value_name = "SEQUENCES", default_value_t = 32)]
    max_batch_size: usize,

    /// Longest prompt; a longer one is refused. Left out: as long as the model's context.
    #[arg(short = 'i', long, value_name = "TOKENS")]
    max_input_len: Option<usize>,

    /// Longest answer; a request for a longer one is refused. Left out: what the prompt leaves of
    /// the model's context.
    #[arg(short = 'o', long, value_name = "TOKENS")]
    max_output_len: Option<usize>,

    /// Tokens computed in one step, of prompts and answers together. Less keeps running answers
    /// smoother while a long prompt comes in; more reads prompts faster.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    max_step_tokens: usize,

    /// Requests that may wait for their turn; one more is refused with status 429.
    #[arg(long, value_name = "REQUESTS", default_value_t = 1024)]
    max_waiting: usize,

    /// Memory for keys and values, such as 512MiB or 4GiB. Never more is taken than
    /// --max-batch-size requests of the longest prompt and answer could use.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    kv_memory: ByteSize,

    /// Worker threads. Left out: one for each core.
    #[arg(long)]
    threads: Option<usize>,

    /// Puts each plain prompt (not chats) into a frame: llama, vicuna, baichuan, or a text of your
    /// own with {input_text} where the prompt goes.
    #[arg(long, value_name = "NAME_OR_TEXT")]
    prompt_template: Option<String>,

    #[command(flatten)]
    idle: IdleOptions,
}

impl EngineOptions {
    /// The engine's configuration for a model whose context holds `context_tokens`; refuses what
    /// makes no sense and what cannot act.
    pub fn inference_config(
        &self,
        context_tokens: usize,
    ) -> Result<InferenceConfig, terrace_engine::Error> {
        let mut config = InferenceConfig {
            dtype: self.dtype,
            kv_cache_dtype: self.kv_cache_dtype,
            block_size: self.block_size,
            max_batch_size: self.max_batch_size,
            max_input_len: self.max_input_len.unwrap_or(context_tokens),
            max_output_len: self.max_output_len.unwrap_or(context_tokens),
            max_step_tokens: self.max_step_tokens,
            max_waiting: self.max_waiting,
            kv_memory_bytes: Some(self.kv_memory.0),
            threads: self.threads,
            prompt_template: self.prompt_template.clone(),
            ..InferenceConfig::default()
        };
        self.idle.set(&mut config);
        config.check()?;
        Ok(config)
    }
}

/// fp8 is parsed too, so that the engine can say why not.
fn precision() -> impl TypedValueParser<Value = Precision> {
    let values = ["fp16", "bf16", "fp32"].map(PossibleValue::new);
    let hidden = PossibleValue::new("fp8").hide(true);
    PossibleValuesParser::new(values.into_iter().chain([hidden])).map(|name| match name.as_str() {
        "fp16" => Precision::Fp16,
        "bf16" => Precision::Bf16,
        "fp32" => Precision::Fp32,
        _ => Precision::Fp8,
    })
}
