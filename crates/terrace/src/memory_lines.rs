//! Where an engine's memory went, as lines for people.

use terrace_engine::MemoryReport;

use crate::byte_size::ByteSize;

pub fn memory_lines(memory: &MemoryReport) -> String {
    let MemoryReport { device, kv_pages, threads, .. } = memory;
    let page_tokens = memory.page_tokens_text();
    let weights = ByteSize(memory.weight_bytes);
    let kv = ByteSize(memory.kv_bytes);
    let page = ByteSize(memory.kv_bytes / kv_pages);
    let scratch = ByteSize(memory.scratch_bytes);
    let seqs = memory.seq_pages.map_or(String::new(), |pages| {
        let bytes = ByteSize(pages * (memory.kv_bytes / kv_pages));
        format!("\nsequence {bytes} at most = {pages} pages, however long it gets")
    });
    let store = match memory.store_pages {
        0 => String::new(),
        pages => {
            let bytes = ByteSize(pages * (memory.kv_bytes / kv_pages));
            format!("\nhost     {bytes} = {pages} pages for what leaves the pool")
        }
    };
    format!(
        "device   {device}\n\
         weights  {weights}\n\
         kv pool  {kv} = {kv_pages} pages of {page_tokens} tokens, {page} each{seqs}{store}\n\
         scratch  {scratch}, {threads} threads"
    )
}

/// Said where the pool cannot hold the longest request that is otherwise allowed.
pub fn pool_note(memory: &MemoryReport) -> Option<String> {
    let MemoryReport { kv_pages, longest_tokens, .. } = *memory;
    let page_bytes = memory.kv_bytes / kv_pages;
    let needed = memory.pages_for(longest_tokens);
    if needed <= kv_pages {
        return None;
    }
    let mib = (needed * page_bytes).div_ceil(1 << 20);
    let (held, advice) = match memory.seq_pages {
        None => {
            let tokens = memory.held_tokens();
            (
                format!("{tokens} tokens"),
                format!("or limit requests with --max-context-len {tokens}"),
            )
        }
        Some(_) => (format!("{kv_pages} pages"), "or lower --kv-cache.cache-length".to_owned()),
    };
    Some(format!(
        "note     the kv pool holds {held}, and a request of {longest_tokens} tokens, the longest \
         that is\n         allowed, needs {needed} pages: longer requests are refused. Give \
         --kv-memory {mib}MiB or more,\n         {advice}"
    ))
}
