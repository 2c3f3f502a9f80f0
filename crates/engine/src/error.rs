//! What can go wrong between a request and its last token.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the prompt is empty; give at least one token")]
    EmptyPrompt,
    #[error("the operating system gives no thread: {0}")]
    Threads(String),
    #[error("network and tables of a click-through model do not fit: {0}")]
    Predict(String),
    #[error("the checkpoint cannot take the place of the one that is served: {0}")]
    Reload(String),
    #[error("the trace cannot be written to {}: {message}; name another file", path.display())]
    Trace { path: std::path::PathBuf, message: String },
    #[error("the parameter server has not the tables that the recommender needs: {0}")]
    Features(String),
    #[error(transparent)]
    Embedding(#[from] terrace_embedding::Error),
    #[error("a level of --kv-tier cannot be used: {0}")]
    Tier(#[from] terrace_tiers::TierError),
    #[error("the prompt has {tokens} tokens, the limit is {limit} (max_input_len)")]
    PromptTooLong { tokens: usize, limit: usize },
    /// Of a text that is not tokenised to its end.
    #[error(
        "the prompt has at least {least} tokens, the limit is {limit} (max_input_len, or the \
         model's context)"
    )]
    PromptTextTooLong { least: usize, limit: usize },
    #[error(
        "prompt and output may need {tokens} tokens ({prompt} + {new}), but {limit} fit into the \
         model's context and the kv memory; shorten the prompt or lower max_tokens"
    )]
    ContextTooLong { tokens: usize, prompt: usize, new: usize, limit: usize },
    #[error(
        "prompt and output may need {tokens} tokens ({prompt} + {new}), but a dense cache keeps \
         all and has {slots} slots; give a larger kv_cache.cache_length or leave it out, name a \
         policy that evicts (kv_cache.name), shorten the prompt or lower max_tokens"
    )]
    CacheTooShort { tokens: usize, prompt: usize, new: usize, slots: usize },
    #[error(
        "the request may need {wanted} kv pages of {page_tokens} tokens, the whole pool has \
         {pages}; shorten it, or give the server more kv memory"
    )]
    NeverFits { wanted: usize, pages: usize, page_tokens: usize },
    #[error(
        "the cache's policy computes {longest} tokens together, and a step has room for {limit} \
         beside other requests; take a smaller chunk_size, or give the server more max_step_tokens"
    )]
    ChunkTooLong { longest: usize, limit: usize },
    #[error(
        "a slot of this cache takes {slot_bytes} bytes, a page of the pool has {page_bytes}; give \
         the server a larger block_size"
    )]
    SlotTooLarge { slot_bytes: usize, page_bytes: usize },
    #[error("kv_cache: {0}")]
    Policy(#[from] terrace_cache::policy::PolicyError),
    #[error("{waiting} requests are waiting already, the limit is {limit}; try again later")]
    QueueFull { waiting: usize, limit: usize },
    #[error("token id {id} is outside the vocabulary of {vocab}")]
    UnknownToken { id: u32, vocab: usize },
    #[error("{option} is {value}: {rule}")]
    BadOption { option: &'static str, value: String, rule: String },
    #[error("{option} cannot be followed: {problem}")]
    BadGrammar { option: &'static str, problem: String },
    #[error("outputs of this model cannot follow a grammar: {problem}")]
    NoGuides { problem: String },
    #[error("no grammar can be compiled now: {why}; try again later")]
    NoCompiler { why: String },
    #[error("this device gives no embeddings; serve the model on the CPU for them (--device cpu)")]
    NoEmbeddings,
    #[error("generation_config.json cannot be read: {0}")]
    GenerationConfig(serde_json::Error),
    #[error(
        "kv memory of {bytes} bytes is too small: the model's groups of layers ({pages}) need a \
         page of {page_bytes} bytes each; give it more, or take a smaller block_size"
    )]
    KvMemoryTooSmall { bytes: usize, page_bytes: usize, pages: usize },
    #[error(
        "the GPU's memory does not hold the kv pages that the model needs: {left_bytes} bytes are \
         left of its share beside {placed_bytes} of weights and {scratch_bytes} of scratch, \
         {kept_bytes} are kept for graphs and what is loaded later, and {least_pages} pages of \
         {page_bytes} must fit into the rest; raise --gpu-memory-fraction, lower \
         --max-step-tokens or --max-batch-size, or take a smaller model"
    )]
    DeviceMemoryTooSmall {
        left_bytes: usize,
        placed_bytes: usize,
        scratch_bytes: usize,
        kept_bytes: usize,
        least_pages: usize,
        page_bytes: usize,
    },
    #[error("device {device} cannot be used: {why}")]
    NoSuchDevice { device: String, why: String },
    #[error("a request with id {id} exists already")]
    DuplicateRequest { id: u64 },
    #[error("there is no request with id {id}")]
    UnknownRequest { id: u64 },
    #[error("nothing is kept under handle {handle}; it was released, or its request failed")]
    UnknownHandle { handle: u64 },
    #[error("the request that handle {handle} keeps has not ended yet; wait for its last event")]
    HandleNotReady { handle: u64 },
    #[error("there is no handle {handle:?}; list those that you have, or create it")]
    NoSuchHandle { handle: String },
    /// Of another model, format or page size.
    #[error("handle {handle} cannot be used here: {what}")]
    OtherHandle { handle: String, what: String },
    #[error(
        "the handle has {wanted} kv pages, and {free} of the {total} of the host tier can be taken \
         for it; raise --kv-tier host=..., or unpin or shorten handles"
    )]
    NoHostRoom { wanted: usize, free: usize, total: usize },
    #[error(
        "pinning takes {wanted} bytes, and {used} of the {budget} for pins are in use; unpin \
         another handle, or raise --kv-pin-budget"
    )]
    PinBudget { wanted: u64, used: u64, budget: u64 },
    #[error(
        "the response {id} is not among the last ones that finished with one output; create the \
         handle sooner, or of its tokens"
    )]
    NoRecentResponse { id: u64 },
    #[error("the keys and values of the handle were lost ({why}); create it again")]
    HandleLost { why: &'static str },
    #[error("{what} needs a disk level: start the server with --kv-tier disk=PATH,SIZE")]
    NoDiskLevel { what: &'static str },
    #[error(transparent)]
    Handle(#[from] terrace_tiers::HandleError),
    #[error("the engine has stopped")]
    Stopped,
    #[error("the step failed: {0}")]
    Step(String),
    #[error(
        "the sampling strategy sampled token {id}, which is forbidden or outside the vocabulary of \
         {vocab}"
    )]
    BadStrategy { id: u32, vocab: usize },
    #[error(transparent)]
    Kernels(#[from] terrace_kernels::Error),
    #[error(transparent)]
    Model(#[from] terrace_model::Error),
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
}
