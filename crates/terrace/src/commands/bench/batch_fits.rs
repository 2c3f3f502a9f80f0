//! Whether requests fit into an engine all at once: one that waits would spoil a measurement.

use anyhow::{Result, bail};
use terrace_engine::MemoryReport;

/// `max_seqs` is how many requests may run at once.
pub fn check_batch_fits(
    memory: &MemoryReport,
    max_seqs: usize,
    requests: usize,
    tokens: usize,
) -> Result<()> {
    if max_seqs < requests {
        bail!("{requests} requests shall run at once, --max-batch-size allows {max_seqs}");
    }
    let (pages, page_tokens) = (memory.kv_pages, memory.page_tokens_text());
    let wanted = requests * memory.pages_for(tokens);
    if pages < wanted {
        bail!(
            "{requests} requests of {tokens} tokens need {wanted} kv pages of {page_tokens}, there \
             are {pages}; ask for fewer or shorter ones, or give more memory (--kv-memory, \
             --gpu-memory-fraction)"
        );
    }
    Ok(())
}
