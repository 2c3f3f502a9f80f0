//! `grad.*`: how gradients are computed; they do not depend on it.

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use terrace_cache::policy::SlotFormat;
use terrace_device::Device;
use terrace_tune::{CellLength, GradientOptions, LatticeOptions, LossMean, Rounding};

use super::refused;
use crate::options::{at_least_one, flag};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Gradients (they do not depend on these; time and memory do)")]
pub struct GradArgs {
    /// Layers that are walked back together.
    #[arg(long = "grad.layers-per-cell", value_name = "LAYERS", default_value_t = 1,
          value_parser = at_least_one::<usize>)]
    layers_per_cell: usize,

    /// Tokens that are walked back together, as a multiple of the cache length.
    #[arg(long = "grad.chunks-per-cell-multiplier", value_name = "FACTOR", default_value_t = 1.0)]
    chunks_per_cell_multiplier: f64,

    /// How layers' inputs are kept between the passes: default keeps them whole, the others round
    /// them to 8 or 4 bits.
    #[arg(long = "grad.layercp-qname", value_name = "BUFFER", default_value = "default",
          value_parser = formats())]
    layercp_qname: SlotFormat,

    /// How keys and values are kept. Left out: as layers' inputs.
    #[arg(long = "grad.cachecp-qname", value_name = "BUFFER", value_parser = formats())]
    cachecp_qname: Option<SlotFormat>,

    /// Let each target be a chunk of its own, as when a model generates.
    #[arg(long = "grad.single-tokens-for-targets", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    single_tokens_for_targets: bool,

    /// How often autograd's tensors are searched for those to pack.
    #[arg(long = "grad.max-match-trials-pack-arg", value_name = "COUNT", hide_short_help = true,
          value_parser = refused::match_trials)]
    max_match_trials_pack_arg: Option<u64>,

    /// Of a GPU: keep layers' inputs in pinned memory of the host, where they always are.
    #[arg(long = "grad.layercp-pin-memory", value_name = "BOOL", hide_short_help = true,
          value_parser = flag)]
    layercp_pin_memory: Option<bool>,

    /// Of a GPU: keep keys and values between cells in pinned memory of the host, so that its own
    /// does not grow with the text at all. Left out: they are on the GPU.
    #[arg(long = "grad.cachecp-pin-memory", value_name = "BOOL", value_parser = flag)]
    cachecp_pin_memory: Option<bool>,
}

/// Logits that are there at a time: 64 MiB of them, and of a GPU, which divides each block's work
/// among many more threads, 256 MiB.
const LOGITS_MOST: usize = 1 << 24;
const GPU_LOGITS_MOST: usize = 1 << 26;

fn formats() -> impl TypedValueParser<Value = SlotFormat> {
    PossibleValuesParser::new(SlotFormat::names())
        .map(|name| SlotFormat::named(&name).expect("one of them"))
}

impl GradArgs {
    pub fn options(&self, loss_mean: LossMean, device: &Device) -> Result<GradientOptions> {
        let logits_most = match device {
            Device::Cpu => {
                let pinned = [self.layercp_pin_memory, self.cachecp_pin_memory];
                if pinned.contains(&Some(true)) {
                    bail!(
                        "--grad.layercp-pin-memory and --grad.cachecp-pin-memory are about a GPU, \
                         and this run computes on the CPU, where no memory has to be pinned: leave \
                         them out"
                    );
                }
                LOGITS_MOST
            }
            Device::Cuda(_) if self.layercp_pin_memory == Some(false) => bail!(
                "--grad.layercp-pin-memory is false, and a GPU's layers' inputs are always in \
                 pinned memory: leave it out"
            ),
            Device::Cuda(_) => GPU_LOGITS_MOST,
        };
        Ok(GradientOptions {
            loss_mean,
            rounding: Rounding::EachRow,
            dropout_seed: 0,
            lattice: LatticeOptions {
                layers_per_cell: self.layers_per_cell,
                cell_length: CellLength::Slots { multiplier: self.chunks_per_cell_multiplier },
                single_tokens_for_targets: self.single_tokens_for_targets,
                chunk_seed: 0,
            },
            layer_checkpoints: self.layercp_qname,
            kv_checkpoints: self.cachecp_qname.unwrap_or(self.layercp_qname),
            kv_on_host: self.cachecp_pin_memory.unwrap_or(false),
            logits_most,
        })
    }
}
