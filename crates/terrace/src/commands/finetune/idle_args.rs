//! Arguments that are taken for the sake of command lines written for keys_values: those that say
//! what is so anyway do nothing, and the others are refused with the reason.

use clap::Args;

use super::refused;
use crate::options;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Arguments of keys_values without a meaning here")]
pub struct IdleArgs {
    #[arg(long, value_name = "GB", hide = true, value_parser = refused::temporary_size)]
    attention_forward_temp_size_gb: Option<f64>,

    #[arg(long, value_name = "GB", hide = true, value_parser = refused::temporary_size)]
    attention_backward_temp_size_gb: Option<f64>,

    #[arg(long = "sdpa.flex-attention", hide = true, value_parser = refused::other_attention)]
    flex_attention: Option<bool>,

    #[arg(long = "sdpa.flex-extend-kv", hide = true, value_parser = refused::other_attention)]
    flex_extend_kv: Option<bool>,

    #[arg(long = "sdpa.flex-num-q-lens", hide = true, value_parser = refused::attention_number)]
    flex_num_q_lens: Option<u64>,

    #[arg(long = "sdpa.reorder-sort-if-3d", hide = true, value_parser = refused::other_attention)]
    reorder_sort_if_3d: Option<bool>,

    #[arg(long = "sdpa.use-flex-for-attn-weights", hide = true,
          value_parser = refused::other_attention)]
    use_flex_for_attn_weights: Option<bool>,

    #[arg(long = "sdpa.dynamo-cache-size-limit", hide = true,
          value_parser = refused::attention_number)]
    dynamo_cache_size_limit: Option<u64>,

    #[arg(long = "sdpa.fused-rope", hide = true, value_parser = refused::fused)]
    fused_rope: Option<bool>,

    #[arg(long = "sdpa.fused-rmsnorm", hide = true, value_parser = refused::fused)]
    fused_rmsnorm: Option<bool>,

    #[arg(long = "sdpa.fused-swiglu", hide = true, value_parser = refused::fused)]
    fused_swiglu: Option<bool>,

    #[arg(long = "sdpa.flashinfer-attention", hide = true,
          value_parser = refused::other_attention)]
    flashinfer_attention: Option<bool>,

    #[arg(long, hide = true, value_parser = refused::generate_with_eval)]
    generate_with_eval: Option<bool>,

    #[arg(long, hide = true, value_parser = refused::profile)]
    profile_grad_times: Option<bool>,

    #[arg(long, hide = true, value_parser = refused::profile)]
    profile_parts: Option<bool>,

    #[arg(long, hide = true, value_parser = refused::quantiles)]
    size_log_quantiles: Option<String>,

    #[arg(long = "kv-cache.cpu-offload", hide = true, value_parser = options::refused::cpu_offload)]
    cpu_offload: Option<bool>,

    #[arg(long = "kv-cache.allocate-buffers", hide = true,
          value_parser = options::refused::allocate_buffers)]
    allocate_buffers: Option<bool>,

    #[arg(long = "kv-cache.cache-kwargs.range-is-prefix", hide = true,
          visible_alias = "kv-cache.range-is-prefix",
          value_parser = options::refused::range_is_prefix)]
    range_is_prefix: Option<bool>,
}
