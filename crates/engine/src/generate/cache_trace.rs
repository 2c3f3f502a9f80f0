//! What a sequence's cache holds at one moment: its pages, who holds them, and which tokens each
//! head has kept. For people who want to see what a policy does; nothing is decided by it.

use serde::{Deserialize, Serialize};
use terrace_cache::KvGroup;
use terrace_cache::policy::Rule;
use terrace_kernels::{KvLayout, SlotLayout};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTrace {
    pub request: u64,
    /// Which of the request's outputs; the first, while they are not yet apart.
    pub choice: usize,
    /// `waiting`, `running` or `preempted`; only a running one holds pages.
    pub state: String,
    pub prompt_tokens: usize,
    /// Tokens of prompt and output that have passed the cache.
    pub computed_tokens: usize,
    pub groups: Vec<GroupTrace>,
}

/// Layers that share a block table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTrace {
    pub layers: Vec<usize>,
    /// Which tokens stay, in words.
    pub keeps: String,
    /// Slots of a page.
    pub page_slots: usize,
    pub pages: Vec<PageTrace>,
    /// `[layers][kv_heads]`, if asked.
    pub kept: Option<Vec<Vec<KeptPositions>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageTrace {
    pub page: u32,
    /// Sequences that have it.
    pub holders: u32,
}

/// Positions in a sequence, as runs from their first to behind their last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeptPositions {
    pub runs: Vec<(u32, u32)>,
}

impl KeptPositions {
    pub fn new(mut positions: Vec<u32>) -> Self {
        positions.sort_unstable();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for position in positions {
            match runs.last_mut() {
                Some((_, end)) if *end == position => *end += 1,
                _ => runs.push((position, position + 1)),
            }
        }
        KeptPositions { runs }
    }

    pub fn count(&self) -> usize {
        self.runs.iter().map(|(start, end)| (end - start) as usize).sum()
    }

    /// How many lie in `start..end`.
    pub fn count_in(&self, start: usize, end: usize) -> usize {
        let overlap = |&(first, last): &(u32, u32)| {
            (last as usize).min(end).saturating_sub((first as usize).max(start))
        };
        self.runs.iter().map(overlap).sum()
    }
}

/// What each head of a group's layers has in its first `filled` slots. pages: bytes of the group's
/// pages, in order.
pub(crate) fn kept_positions(
    group: &KvGroup,
    pages: &[Vec<u8>],
    filled: usize,
) -> Vec<Vec<KeptPositions>> {
    match group.layout {
        KvLayout::Dense(layout) => {
            let all = KeptPositions::new((0..filled as u32).collect());
            vec![vec![all; layout.kv_heads]; group.layers.len()]
        }
        KvLayout::Slots(layout) => {
            let head = |layer, head| kept_by_head(&layout, pages, filled, layer, head);
            let layer = |layer| (0..layout.kv_heads).map(|kv_head| head(layer, kv_head)).collect();
            (0..layout.layers).map(layer).collect()
        }
    }
}

fn kept_by_head(
    layout: &SlotLayout,
    pages: &[Vec<u8>],
    filled: usize,
    layer: usize,
    kv_head: usize,
) -> KeptPositions {
    let start = layout.offsets(layer).positions + kv_head * layout.page_slots * size_of::<i32>();
    let end = start + layout.page_slots * size_of::<i32>();
    let positions = pages.iter().flat_map(|page| page[start..end].as_chunks().0).take(filled);
    // No token has come to a slot at -1.
    let positions = positions.filter_map(|bytes| u32::try_from(i32::from_le_bytes(*bytes)).ok());
    KeptPositions::new(positions.collect())
}

/// A rule in words.
pub(crate) fn rule_in_words(rule: Option<&Rule>) -> String {
    match rule {
        None | Some(Rule::Keep) => "all tokens".into(),
        Some(Rule::Recent(rule)) => {
            format!("the first {} tokens and the newest", rule.protected_tokens)
        }
        Some(Rule::Scored(rule)) => {
            let (first, newest) = (rule.protected_tokens, rule.grace_tokens);
            format!("the first {first} tokens, the newest {newest}, and those with the best scores")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_count_what_they_hold() {
        let kept = KeptPositions::new(vec![9, 0, 1, 2, 8, 20]);
        assert_eq!(kept.runs, [(0, 3), (8, 10), (20, 21)]);
        assert_eq!((kept.count(), kept.count_in(2, 9), kept.count_in(10, 20)), (6, 2, 0));
        assert_eq!(KeptPositions::default().count(), 0);
    }
}
