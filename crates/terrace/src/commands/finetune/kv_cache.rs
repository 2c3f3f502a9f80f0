//! The cache that a model is tuned with.

use anyhow::Result;
use terrace_cache::policy::{KvCacheSpec, Policies};
use terrace_model::{AttentionSpec, DecoderSpec};

use crate::options::KvCacheOptions;

/// Of keys_values, where nothing else is asked for.
const NAME: &str = "h2o-torch-quantized8";
const CACHE_LENGTH: usize = 16_384;
const CHUNK_SIZE: usize = 1_024;

pub fn kv_cache(options: &KvCacheOptions, spec: &DecoderSpec) -> Result<KvCacheSpec> {
    let mut requested = options.own_cache()?;
    requested.name.get_or_insert_with(|| NAME.to_owned());
    let dims = spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        [attention.head_dim; 2]
    });
    let dims: Vec<_> = dims.collect();
    Ok(requested.spec(CACHE_LENGTH, CHUNK_SIZE, &Policies::built_in(), &dims)?)
}
