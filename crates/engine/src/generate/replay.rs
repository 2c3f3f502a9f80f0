//! The log of what a sequence's policy decided, gathered as steps finish.
//!
//! Slots are chosen on the device; the host learns them with what the step sampled, and only of
//! sequences that ask for a log.

use std::ops::Range;

use terrace_cache::policy::{Placement, ReplayLog, TableShape};
use terrace_model::LayerLocation;

use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_policy::SeqPolicy;
use crate::generate::step_plan::Chunk;

/// An empty log for a sequence that wants one.
pub(crate) fn log_of(cache: Option<&SeqCache>) -> Option<ReplayLog> {
    let (groups, policy) = (&cache?.groups, cache?.policy.as_ref()?);
    if !policy.keeps_log {
        return None;
    }
    let layers = groups.iter().map(|group| group.layers.len()).sum();
    let mut shapes = vec![TableShape { kv_heads: 0, slots: 0 }; layers];
    for (group, rule) in groups.iter().zip(&policy.rules) {
        let shape = TableShape { kv_heads: group.kv_heads(), slots: rule.slots };
        group.layers.iter().for_each(|layer| shapes[*layer] = shape);
    }
    Some(ReplayLog::new(&shapes))
}

/// Whether the slots of a chunk must be reported to the host: the first chunk's follow from
/// positions.
pub(crate) fn reports_slots(policy: Option<&SeqPolicy>, chunk: &Chunk) -> bool {
    policy.is_some_and(|policy| policy.keeps_log && policy.first_chunk() <= chunk.start)
}

/// Writes a finished chunk down. `placements` are those of each layer, where the device reported
/// them.
pub(crate) fn record(
    log: &mut ReplayLog,
    chunk: &Chunk,
    first_chunk: usize,
    placements: Option<&[Placement]>,
) {
    let in_order = |layer: usize, log: &ReplayLog| {
        let slots = (0..log.shape(layer).kv_heads).flat_map(|_| 0..first_chunk as u32);
        Placement { tokens: first_chunk, slots: slots.collect() }
    };
    match placements {
        Some(placements) => {
            log.begin_chunk(chunk.tokens);
            for (layer, placement) in placements.iter().enumerate() {
                log.record(layer, placement);
            }
        }
        // Parts of the first chunk are written down when it is whole.
        None if chunk.end() == first_chunk => {
            log.begin_chunk(first_chunk);
            for layer in 0..log.layers() {
                let placement = in_order(layer, log);
                log.record(layer, &placement);
            }
        }
        None => {}
    }
}

/// The slots of a chunk's rows in every layer. `slots(group)` are i32 `[layers, tokens, kv_heads]`
/// of one of the part's groups, with its tokens and heads.
pub(crate) fn placements<'a>(
    locations: &[LayerLocation],
    rows: Range<usize>,
    slots: impl Fn(usize) -> (&'a [i32], [usize; 2]),
) -> Vec<Placement> {
    let of_layer = |home: &LayerLocation| {
        let (slots, [tokens, kv_heads]) = slots(home.group);
        let layer = &slots[home.layer * tokens * kv_heads..][..tokens * kv_heads];
        let of_head =
            |head: usize| rows.clone().map(move |row| layer[row * kv_heads + head] as u32);
        Placement { tokens: rows.len(), slots: (0..kv_heads).flat_map(of_head).collect() }
    };
    locations.iter().map(of_layer).collect()
}
