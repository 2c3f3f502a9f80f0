//! Options of ColossalAI-Inference that have nothing to steer here yet. They are accepted at the
//! value that is true anyway, and refused by the engine with the reason at any other.

use clap::Args;
use terrace_engine::InferenceConfig;

use crate::options::whole_number;

#[derive(Args, Clone, Debug)]
#[command(
    next_help_heading = "Not there yet, or always so (another value is refused with the reason)"
)]
pub struct IdleOptions {
    /// Compute with CUDA kernels; refused where there is no GPU, and always so where there is one.
    #[arg(long, value_name = "BOOL", default_value_t = false, hide_short_help = true,
          num_args = 0..=1, default_missing_value = "true", require_equals = true,
          action = clap::ArgAction::Set)]
    use_cuda_kernel: bool,

    /// Record decoding steps as CUDA graphs; refused without a GPU, and always so with one.
    #[arg(long, value_name = "BOOL", default_value_t = false, hide_short_help = true,
          num_args = 0..=1, default_missing_value = "true", require_equals = true,
          action = clap::ArgAction::Set)]
    use_cuda_graph: bool,

    /// Devices that share each layer.
    #[arg(long, value_name = "DEVICES", default_value_t = 1, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    tp_size: usize,

    /// Devices that share the row of layers.
    #[arg(long, value_name = "DEVICES", default_value_t = 1, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    pp_size: usize,

    /// Answers that a beam search follows at once.
    #[arg(long, value_name = "BEAMS", default_value_t = 1, hide_short_help = true,
          value_parser = whole_number::<usize>)]
    beam_width: usize,

    /// Let a small model propose tokens that the large one checks.
    #[arg(long, value_name = "BOOL", default_value_t = false, hide_short_help = true,
          num_args = 0..=1, default_missing_value = "true", require_equals = true,
          action = clap::ArgAction::Set)]
    use_spec_dec: bool,
}

impl IdleOptions {
    pub fn set(&self, config: &mut InferenceConfig) {
        config.use_cuda_kernel = self.use_cuda_kernel;
        config.use_cuda_graph = self.use_cuda_graph;
        config.tp_size = self.tp_size;
        config.pp_size = self.pp_size;
        config.beam_width = self.beam_width;
        config.use_spec_dec = self.use_spec_dec;
    }
}
