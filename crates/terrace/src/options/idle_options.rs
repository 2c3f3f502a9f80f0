//! Options of ColossalAI-Inference and of keys_values that have nothing to steer here yet. They are
//! accepted at the value that is true anyway, and refused with the reason at any other.

use clap::Args;
use terrace_engine::InferenceConfig;

use crate::options::{flag, refused, whole_number};

#[derive(Args, Clone, Debug)]
#[command(
    next_help_heading = "Not there yet, or always so (another value is refused with the reason)"
)]
pub struct IdleOptions {
    /// Capture decode steps as CUDA graphs; refused without a GPU, and always so with one.
    #[arg(long, value_name = "BOOL", default_value_t = false, hide_short_help = true,
          value_parser = flag, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = clap::ArgAction::Set)]
    use_cuda_graph: bool,

    /// Devices that share each layer.
    #[arg(long, value_name = "DEVICES", default_value_t = 1, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    tp_size: usize,

    /// Devices that share the row of layers.
    #[arg(long, value_name = "DEVICES", default_value_t = 1, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    pp_size: usize,

    /// Beams of a beam search.
    #[arg(long, value_name = "BEAMS", default_value_t = 1, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    beam_width: usize,

    /// Let a small model propose tokens that the large one checks.
    #[arg(long, value_name = "BOOL", default_value_t = false, hide_short_help = true,
          value_parser = flag, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = clap::ArgAction::Set)]
    use_spec_dec: bool,

    /// Keep quantised keys and values in the host's memory. Left out: false.
    #[arg(long = "kv-cache.cpu-offload", value_name = "BOOL", hide_short_help = true,
          value_parser = refused::cpu_offload)]
    cpu_offload: Option<bool>,

    /// Take the memory of keys and values at the start. Left out: true.
    #[arg(long = "kv-cache.allocate-buffers", value_name = "BOOL", hide_short_help = true,
          value_parser = refused::allocate_buffers)]
    allocate_buffers: Option<bool>,

    /// Of smart-lastrec: what is protected begins at the first token. Left out: true.
    #[arg(long = "kv-cache.cache-kwargs.range-is-prefix", value_name = "BOOL",
          hide_short_help = true, value_parser = refused::range_is_prefix,
          visible_alias = "kv-cache.range-is-prefix")]
    range_is_prefix: Option<bool>,
}

impl IdleOptions {
    pub fn set(&self, config: &mut InferenceConfig) {
        config.use_cuda_graph = self.use_cuda_graph;
        config.tp_size = self.tp_size;
        config.pp_size = self.pp_size;
        config.beam_width = self.beam_width;
        config.use_spec_dec = self.use_spec_dec;
    }
}
