//! What can be wrong with a cache that was asked for, or with a chunk for it.

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "kv_cache.name {name:?} is not known: it is a policy and a buffer joined by '-', or a \
         policy and two buffers, those of keys and of values, as in h2o-fp8+torch-quantized4; \
         policies: {policies}; buffers: {buffers}"
    )]
    UnknownName { name: String, policies: String, buffers: String },
    #[error("{policy} has no argument {argument:?}: it takes {valid}")]
    UnknownArgument { policy: String, argument: String, valid: String },
    #[error("there is no option kv_cache.{key}: options are {valid}")]
    UnknownKey { key: String, valid: String },
    #[error("{argument} is {value}: it must be {wanted}")]
    BadArgument { argument: String, value: String, wanted: String },
    #[error("{policy} needs the argument {argument:?}: {what}")]
    MissingArgument { policy: String, argument: String, what: String },
    #[error(
        "{policy} weighs what storing a token changes, and the default buffer changes nothing: \
         use one of {valid}"
    )]
    NeedsQuantiser { policy: String, valid: String },
    #[error("{buffer} packs two numbers into a byte, and heads have {dim}: use an 8-bit buffer")]
    OddHead { buffer: String, dim: usize },
    #[error(
        "{given} values of kv_cache.cache_length for {layers} layers: give one, or one for each"
    )]
    LayerCount { given: usize, layers: usize },
    #[error(
        "nothing could be evicted from {slots} slots: {protected} first tokens are protected and \
         {grace} newest are in their grace period; make kv_cache.cache_length larger, or \
         init_grace_tokens or grace_period smaller"
    )]
    NothingToEvict { slots: usize, protected: usize, grace: usize },
    #[error(
        "chunks may have {longest} tokens with kv_cache.chunk_size {chunk_size}, but only {most} \
         can be evicted from {slots} slots at once: make {smaller} smaller, or \
         kv_cache.cache_length larger"
    )]
    ChunkSize { chunk_size: usize, longest: usize, most: usize, slots: usize, smaller: String },
    #[error(
        "a chunk of {tokens} tokens after {seen}: the cache of {slots} slots takes 1 to {most} now"
    )]
    ChunkTokens { tokens: usize, most: usize, seen: usize, slots: usize },
    #[error("the protected text cannot be found: {why}")]
    TextSegment { why: String },
    #[error(
        "{what} only means something in a batch of fixed rows: it needs compat = \"keys_values\""
    )]
    NeedsCompat { what: String },
    #[error("{what} cannot go with compat = \"keys_values\": the original has no such thing")]
    NotInCompat { what: String },
    #[error(
        "{what} is for comparison: no engine runs it, only the reference cache does; leave it out"
    )]
    ReferenceOnly { what: String },
    #[error(
        "{policy} has a score of its own, which is code of the host and cannot run on a GPU: serve \
         on the CPU (--device cpu), or choose another kv_cache.name"
    )]
    HostOnly { policy: String },
    #[error(
        "{policy} keeps everything in layers of {keeping} slots and evicts from those of \
         {evicting}: a policy does one of the two in all layers"
    )]
    MixedLayers { policy: String, keeping: usize, evicting: usize },
    #[error("this is no replay log: {why}")]
    DamagedLog { why: String },
}
