//! Where an engine's memory went, as lines for people.

use terrace_engine::{MemoryReport, TierReading};

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

/// One line for each level below host memory: what it may hold, and what it has from before.
pub fn tier_lines(tiers: &[TierReading]) -> Vec<String> {
    let line = |TierReading { name, usage, .. }: &TierReading| {
        let size = |bytes: u64| ByteSize(bytes as usize);
        match (usage.budget_bytes, usage.used_bytes, usage.records) {
            (Some(budget), Some(used), Some(records)) => {
                let (budget, used) = (size(budget), size(used));
                format!("{name:<9}{budget}, of which {used} hold {records} pages from before")
            }
            _ => format!("{name:<9}shared: pages of all servers of this model are found there"),
        }
    };
    tiers.iter().map(line).collect()
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

#[cfg(test)]
mod tests {
    use terrace_engine::{TierCounters, TierUsage};

    use super::*;

    #[test]
    fn a_level_says_what_it_has_from_before() {
        let reading = |name: &str, usage| TierReading {
            name: name.into(),
            counters: TierCounters::default(),
            usage,
        };
        let (used_bytes, budget_bytes) = (Some(3 << 20), Some(1 << 30));
        let disk = TierUsage { used_bytes, budget_bytes, records: Some(8), damaged: 0 };
        let lines = tier_lines(&[reading("disk", disk), reading("redis", TierUsage::default())]);
        assert_eq!(lines[0], "disk     1.0 GiB, of which 3.0 MiB hold 8 pages from before");
        assert_eq!(lines[1], "redis    shared: pages of all servers of this model are found there");
    }
}
