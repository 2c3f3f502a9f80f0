//! What an engine gets where the command line leaves it open.

/// The largest step that a measurement chooses by itself.
const MEASURED_STEP_TOKENS: usize = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineDefaults {
    pub max_batch_size: usize,
    /// Requests that may wait for their turn.
    pub max_waiting: usize,
    pub max_input_len: usize,
    pub max_output_len: usize,
    /// What prompt and output share where their lengths are left open.
    pub context_tokens: Option<usize>,
    /// A step takes at least so many tokens; each kind of device has its own number above it.
    pub step_tokens: usize,
    /// On the CPU, keys and values take no more than this.
    pub cpu_kv_bytes: Option<usize>,
    /// Models that share the device.
    pub models: usize,
    /// Draws the order of free pages.
    pub page_order_seed: Option<u64>,
}

impl EngineDefaults {
    /// For serving a model whose context holds `context_tokens`.
    pub fn serving(context_tokens: usize) -> Self {
        EngineDefaults {
            max_batch_size: 32,
            max_waiting: 1024,
            max_input_len: context_tokens,
            max_output_len: context_tokens,
            context_tokens: Some(context_tokens),
            step_tokens: 1,
            cpu_kv_bytes: Some(1 << 30),
            models: 1,
            page_order_seed: None,
        }
    }

    /// For `batch` requests at once, none of which may ever wait for room.
    pub fn measuring(
        batch: usize,
        prompt_tokens: usize,
        new_tokens: usize,
        page_tokens: usize,
    ) -> Self {
        EngineDefaults {
            max_batch_size: batch,
            max_waiting: usize::MAX,
            max_input_len: prompt_tokens,
            // A page more: one for each running request must be left when the last is let in.
            max_output_len: new_tokens + page_tokens,
            context_tokens: None,
            step_tokens: prompt_tokens.min(MEASURED_STEP_TOKENS).max(batch),
            cpu_kv_bytes: None,
            models: 1,
            page_order_seed: Some(1),
        }
    }
}
