//! The replay logs of a batch: one for each sequence, all with the same chunks.

use std::ops::Range;

use terrace_cache::policy::ReplayLog;

#[derive(Clone, Debug, PartialEq)]
pub struct BatchReplay {
    logs: Vec<ReplayLog>,
}

impl BatchReplay {
    /// Panics unless the logs are of equally cut sequences of one model.
    pub fn new(logs: Vec<ReplayLog>) -> Self {
        for log in &logs[1..] {
            assert_eq!(log.chunks(), logs[0].chunks(), "chunks of a batch");
            assert_eq!(log.layers(), logs[0].layers(), "layers of a batch");
        }
        BatchReplay { logs }
    }

    pub fn logs(&self) -> &[ReplayLog] {
        &self.logs
    }

    pub fn seqs(&self) -> usize {
        self.logs.len()
    }

    pub fn chunks(&self) -> &[usize] {
        self.logs[0].chunks()
    }

    /// Slots of a layer that any token takes.
    pub(crate) fn slots(&self, layer: usize) -> usize {
        self.logs[0].shape(layer).slots.min(self.logs[0].tokens())
    }

    /// `[seqs * kv_heads, tokens]`: where tokens at these positions went.
    pub(crate) fn placed(&self, layer: usize, positions: Range<usize>) -> Vec<i32> {
        let heads = |log| self.heads(log, layer);
        let rows = self.logs.iter().flat_map(heads);
        let row = |(log, head): (&ReplayLog, usize)| -> Vec<i32> {
            log.slots(layer, head, positions.clone()).map(|slot| slot as i32).collect()
        };
        rows.flat_map(row).collect()
    }

    /// `[seqs * kv_heads, slots]`: what the slots hold after the first `tokens` tokens, -1 for
    /// nothing.
    pub(crate) fn positions(&self, layer: usize, tokens: usize) -> Vec<i32> {
        let rows = self.logs.iter().flat_map(|log| self.heads(log, layer));
        let row = |(log, head): (&ReplayLog, usize)| {
            let mut positions = log.positions(layer, head, tokens);
            positions.resize(self.slots(layer), -1);
            positions
        };
        rows.flat_map(row).collect()
    }

    fn heads<'a>(
        &self,
        log: &'a ReplayLog,
        layer: usize,
    ) -> impl Iterator<Item = (&'a ReplayLog, usize)> + use<'a> {
        (0..log.shape(layer).kv_heads).map(move |head| (log, head))
    }
}
