//! What can be typed behind the four commands.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use terrace_tune::record::LogKind;

use super::data_args::DataArgs;
use super::device_args::DeviceArgs;
use super::eval_args::EvalArgs;
use super::grad_args::GradArgs;
use super::head_args::HeadArgs;
use super::idle_args::IdleArgs;
use super::lora_args::LoraArgs;
use super::optimiser_args::OptimiserArgs;
use super::precision::Precision;
use super::snapshot_args::SnapshotArgs;
use super::train_args::TrainArgs;
use crate::options::{KvCacheOptions, at_least_one, flag, whole_number};

const EXAMPLES: &str = "Examples:
  terrace finetune_long_lora smollm2 --data JsonLines --data.path notes.jsonl --out_dir out/notes
  terrace finetune_long_lora Qwen/Qwen2.5-0.5B --data LongBenchV2 --data.max_seq_length 100000 \\
    --head_model seq_classification_on_logits --kv_cache.name h2o-default \\
    --kv_cache.cache_length 16384 --kv_cache.chunk_size 1024
  terrace serve --model smollm2 --adapter out/notes/final        # what was learnt

The folder given by --out_dir has metrics.csv and report.html while the run goes on; a run that was
stopped goes on from its last state with --resume true.";

/// Tune LoRA adapters with the KV cache policy in place.
///
/// The model reads each sequence through the cache that it will be served with, and gradients go
/// through what the cache keeps. Weights stay as they are; what is trained are branches beside
/// some of them, saved as a PEFT adapter.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct FinetuneLoraArgs {
    #[command(flatten)]
    pub common: FinetuneArgs,

    #[command(flatten)]
    pub lora: LoraArgs,
}

/// Tune all weights with the KV cache policy in place.
///
/// As finetune_long_lora, but every weight is trained. The model must be a folder with
/// safetensors; a folder of the same kind is saved.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct FinetuneFullArgs {
    #[command(flatten)]
    pub common: FinetuneArgs,
}

/// Tune LoRA adapters with weights on the host.
///
/// As finetune_long_lora, but of the model's weights a GPU has those alone that it computes with at
/// the time: one row of layers. On a CPU, where all memory is the host's, it is the same.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct OffloadLoraArgs {
    #[command(flatten)]
    pub common: FinetuneArgs,

    #[command(flatten)]
    pub lora: LoraArgs,
}

/// Tune all weights with weights, gradients and optimiser on the host.
///
/// As finetune_long_full, but of the model's weights and their gradients a GPU has those alone that
/// it computes with at the time: one row of layers. On a CPU, where all memory is the host's, it is
/// the same.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct OffloadFullArgs {
    #[command(flatten)]
    pub common: FinetuneArgs,
}

#[derive(Args, Clone, Debug)]
pub struct FinetuneArgs {
    /// The model: a folder in Hugging Face's layout, a GGUF file (LoRA only), or a name that
    /// `terrace pull` knows, which is pulled if it is not there.
    #[arg(value_name = "MODEL")]
    pub model: String,

    /// Where adapters or models, logs and states are written.
    #[arg(long, value_name = "FOLDER", default_value = "out/finetune")]
    pub out_dir: PathBuf,

    /// In which numbers it computes and learns.
    #[arg(long, value_name = "NUMBERS", default_value = "bf16-mixed")]
    pub precision: Precision,

    #[command(flatten)]
    pub devices: DeviceArgs,

    /// Go on from the newest state in the output folder. auto: if there is one.
    #[arg(long, value_name = "BOOL", default_value = "false",
          value_parser = PossibleValuesParser::new(["true", "false", "auto", "True", "False"])
              .map(|text| Resume::of(&text)))]
    pub resume: Resume,

    /// States that are kept, the newest.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = at_least_one::<usize>)]
    pub training_state_num: usize,

    /// Of everything that is drawn at random.
    #[arg(long, value_name = "NUMBER", default_value_t = 1337, value_parser = whole_number::<u64>)]
    pub seed: u64,

    /// Print what the run will do and take, and do nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// How much is printed: none, some (a bar and validations), more (each step), all (also what is
    /// saved).
    #[arg(long, value_name = "LEVEL", default_value = "some")]
    pub verbose: Verbosity,

    /// Where numbers go: csv, or tensorboard, which writes its files beside.
    #[arg(long, value_name = "NAME", default_value = "csv",
          value_parser = |name: &str| LogKind::named(name))]
    pub logger_name: LogKind,

    /// A token for the Hugging Face hub.
    #[arg(long, value_name = "TOKEN", hide_short_help = true, value_parser = no_token)]
    pub access_token: Option<String>,

    /// Whether positions are scaled (YaRN) for sequences longer than the model was trained for.
    #[arg(long, value_name = "BOOL", default_value_t = true, value_parser = flag,
          action = ArgAction::Set)]
    pub yarn_rope: bool,

    /// Whether a pass that runs out of memory is repeated with smaller parts.
    #[arg(long, value_name = "BOOL", default_value_t = true, hide_short_help = true,
          value_parser = flag, action = ArgAction::Set)]
    pub oom_error_recovery: bool,

    #[command(flatten)]
    pub data: DataArgs,

    #[command(flatten)]
    pub head: HeadArgs,

    #[command(flatten)]
    pub train: TrainArgs,

    #[command(flatten)]
    pub eval: EvalArgs,

    #[command(flatten)]
    pub optimiser: OptimiserArgs,

    #[command(flatten)]
    pub grad: GradArgs,

    #[command(flatten)]
    pub kv_cache: KvCacheOptions,

    #[command(flatten)]
    pub snapshots: SnapshotArgs,

    #[command(flatten)]
    pub idle: IdleArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    No,
    Auto,
    Yes,
}

impl Resume {
    fn of(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "true" => Resume::Yes,
            "auto" => Resume::Auto,
            _ => Resume::No,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Verbosity {
    None,
    Some,
    More,
    All,
}

fn no_token(_: &str) -> Result<String, String> {
    Err("whoever lists this machine's processes would see it; set the environment variable \
         HF_TOKEN instead"
        .to_owned())
}
