//! The operations of a step that computes nothing twice.

use terrace_cache::policy::KvCacheSpec;
use terrace_kernels::Matrix;
use terrace_model::{AttentionSpec, DecoderSpec, DecoderTensors, LayerTensors};

use super::batch_shape::BatchShape;

/// Products with weights: a multiplication and an addition forward and for the input's gradient,
/// and for the weight's own where `full`. Attention over what is kept: two products forward and
/// five back. Branches, norms and all that is not a product is left out.
pub fn step_flops(
    spec: &DecoderSpec,
    tensors: &DecoderTensors,
    cache: &KvCacheSpec,
    [seqs, tokens]: BatchShape,
    full: bool,
) -> f64 {
    let head = tensors.head.as_ref().unwrap_or(&tensors.embed);
    let layers = tensors.layers.iter().flat_map(matrices);
    let weights: usize = layers.chain([head]).map(|matrix| matrix.rows() * matrix.columns()).sum();
    let passes = if full { 3 } else { 2 };
    let mut flops = 2.0 * (passes * tokens) as f64 * weights as f64;
    for (i, layer) in spec.layers.iter().enumerate() {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        let most = cache.slots(i).min(attention.window.unwrap_or(usize::MAX));
        let pairs = seen_keys(tokens, most) * attention.query_width() as f64;
        flops += 2.0 * (2 + 5) as f64 * pairs;
    }
    seqs as f64 * flops
}

fn matrices(layer: &LayerTensors) -> [&Matrix; 7] {
    let LayerTensors { query, key, value, output, gate, up, down, .. } = layer;
    [query, key, value, output, gate, up, down].map(|biased| &biased.weight)
}

/// Keys that all tokens see together, each at most so many.
fn seen_keys(tokens: usize, most: usize) -> f64 {
    let growing = tokens.min(most);
    (growing * (growing + 1)) as f64 / 2.0 + ((tokens - growing) * most) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_sees_itself_and_those_before_as_far_as_they_are_kept() {
        let seen = |tokens, most, want: f64| {
            let found = seen_keys(tokens, most);
            assert!((found - want).abs() < 1e-9, "{tokens} tokens, {most} kept: {found}");
        };
        seen(4, 10, 10.0);
        seen(4, 4, 10.0);
        seen(4, 2, 1.0 + 2.0 + 2.0 + 2.0);
        seen(1, 1, 1.0);
    }
}
