//! The cache that a model is tuned with.

use anyhow::Result;
use terrace_cache::policy::{KvCacheSpec, Policies};
use terrace_engine::{Lengths, RequestedKvCache};
use terrace_model::{AttentionSpec, DecoderSpec};

use crate::options::KvCacheOptions;

/// Of keys_values, where nothing else is asked for.
const NAME: &str = "h2o-torch-quantized8";
const CACHE_LENGTH: usize = 16_384;
const CHUNK_SIZE: usize = 1_024;

/// What is left out is filled in.
pub fn requested(options: &KvCacheOptions) -> Result<RequestedKvCache> {
    let mut requested = options.own_cache()?;
    requested.name.get_or_insert_with(|| NAME.to_owned());
    requested.cache_length.get_or_insert(Lengths::One(CACHE_LENGTH));
    requested.chunk_size.get_or_insert(CHUNK_SIZE);
    Ok(requested)
}

pub fn kv_cache(requested: &RequestedKvCache, spec: &DecoderSpec) -> Result<KvCacheSpec> {
    let dims = spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        [attention.head_dim; 2]
    });
    let dims: Vec<_> = dims.collect();
    Ok(requested.spec(CACHE_LENGTH, CHUNK_SIZE, &Policies::built_in(), &dims)?)
}
