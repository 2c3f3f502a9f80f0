//! Where an engine's memory went, as lines for people.

use terrace_engine::MemoryReport;

use crate::byte_size::ByteSize;

pub fn memory_lines(memory: &MemoryReport) -> String {
    let MemoryReport { device, kv_pages, page_tokens, threads, .. } = memory;
    let weights = ByteSize(memory.weight_bytes);
    let kv = ByteSize(memory.kv_bytes);
    let page = ByteSize(memory.kv_bytes / kv_pages);
    let scratch = ByteSize(memory.scratch_bytes);
    let seqs = memory.seq_pages.map_or(String::new(), |pages| {
        let bytes = ByteSize(pages * (memory.kv_bytes / kv_pages));
        format!("\nsequence {bytes} at most = {pages} pages, however long it gets")
    });
    format!(
        "device   {device}\n\
         weights  {weights}\n\
         kv pool  {kv} = {kv_pages} pages of {page_tokens} tokens, {page} each{seqs}\n\
         scratch  {scratch}, {threads} threads"
    )
}
