//! What the original does and no op does, played by hand between the steps.
//!
//! A served cache does none of this; it is here so that everything else of such a run is held to
//! the original all the same.

use terrace_kernels::SlotLayout;

use super::case_kinds::PolicyRun;
use super::host_slots::{HostSlots, SlotArray, SlotAt};
use crate::policy::{KvCacheSpec, Rule, ScoredRule};
use crate::reference::FixedBlocks;

pub(super) struct Quirks {
    /// Newest tokens sit in a ring of so many slots, where each starts with the score of the one
    /// before it; 0 where there is none.
    pub ring: usize,
    /// All rows share the sum of their weights.
    row_sums: bool,
    /// How keys and values are stored; live rows are not.
    blocks: [FixedBlocks; 2],
    /// Everything passes through the blocks after a step.
    pub requantise: bool,
    initial_slots: usize,
}

/// A step, with the slots before and after it.
pub(super) struct StepDone {
    pub past: usize,
    pub tokens: usize,
    pub before: HostSlots,
    pub after: HostSlots,
    /// Keys and values of the step, each `[seqs][kv_heads][tokens][dim]`.
    pub live: [Vec<f32>; 2],
}

impl Quirks {
    pub fn of(run: &PolicyRun, spec: &KvCacheSpec, rule: &Rule) -> Self {
        let (ring, initial_slots) = match rule {
            Rule::Scored(ScoredRule { grace_tokens, initial_slots, .. }) => {
                (*grace_tokens, *initial_slots)
            }
            Rule::Keep | Rule::Recent(_) => (0, 0),
        };
        let blocks = [spec.keys, spec.values].map(|format| {
            let quantiser = format.quantiser();
            FixedBlocks::new(quantiser, run.batch_size, run.n_query_groups, run.head_size)
        });
        Quirks {
            ring,
            row_sums: spec.policy_name == "h2o-orig",
            blocks,
            requantise: run.requantize_after_every_step,
            initial_slots,
        }
    }

    /// Why a run is left to the reference of a fixed batch.
    pub fn cannot_be_played(&self, run: &PolicyRun) -> Option<&'static str> {
        if self.ring == 0 {
            return None;
        }
        let [first, second] = [0, 1].map(|i| run.chunk_sizes.get(i).copied().unwrap_or(0));
        if first == run.cache_length && first - self.ring < self.initial_slots + second {
            return Some("its first eviction wants slots of the ring");
        }
        let together = self.requantise && self.blocks.iter().any(FixedBlocks::spans_heads);
        together.then_some("heads are quantised together, slot by slot of a ring")
    }

    /// Whether a buffer holds each row by itself and where it is, as slots do.
    pub fn stores_rows_apart(&self) -> bool {
        self.ring == 0 && !self.blocks.iter().any(FixedBlocks::spans_heads)
    }

    /// Changes the slots after a step to what the original has there.
    pub fn play(&self, done: &mut StepDone) {
        let SlotLayout { notes, .. } = done.after.layout;
        if notes.errors {
            self.note_errors(done);
        }
        if notes.scores && self.row_sums {
            sum_over_rows(done);
        }
        if notes.scores && done.slots() <= done.past {
            self.inherit_scores(done);
        }
        if self.requantise {
            self.store_again(done);
        }
    }

    /// What storing the step's rows would have changed.
    fn note_errors(&self, done: &mut StepDone) {
        let [keys, values] = [0, 1].map(|i| self.blocks[i].errors(&done.live[i]));
        for at in done.filled() {
            if let Some(token) = done.live_token(at) {
                let i = (at.seq * done.kv_heads() + at.head) * done.tokens + token;
                done.after.set_note(at, SlotArray::Errors, keys[i] + values[i]);
            }
        }
    }

    /// A token in the ring starts with the score of the one that its slot held.
    fn inherit_scores(&self, done: &mut StepDone) {
        let first = done.tokens - self.ring.min(done.tokens);
        for at in done.filled() {
            let token = done.live_token(at).filter(|token| first <= *token);
            let Some(token) = token else { continue };
            let giver = (done.past - self.ring + token - first) as i32;
            let holds_giver =
                |slot: &usize| done.before.position(SlotAt { slot: *slot, ..at }) == giver;
            let Some(slot) = (0..done.slots()).find(holds_giver) else { continue };
            let given = done.before.note(SlotAt { slot, ..at }, SlotArray::Scores);
            let own = done.after.note(at, SlotArray::Scores);
            done.after.set_note(at, SlotArray::Scores, own + given);
        }
    }

    fn store_again(&self, done: &mut StepDone) {
        let all = done.filled();
        for (blocks, array) in self.blocks.iter().zip([SlotArray::Keys, SlotArray::Values]) {
            let mut rows: Vec<f32> = all.iter().flat_map(|at| done.after.row(*at, array)).collect();
            blocks.pass(&mut rows);
            for (at, row) in all.iter().zip(rows.chunks_exact(rows.len() / all.len())) {
                done.after.set_plain_row(*at, array, row);
            }
        }
    }
}

/// What a step added to the scores of one row is added in every row.
fn sum_over_rows(done: &mut StepDone) {
    let old = |done: &StepDone, at: SlotAt| match done.live_token(at) {
        Some(_) => 0.0,
        None => done.before.note(at, SlotArray::Scores),
    };
    let all = done.filled();
    let per_seq = all.len() / done.seqs();
    for i in 0..per_seq {
        let of_rows = || all.iter().skip(i).step_by(per_seq).copied();
        let added = |at: SlotAt| done.after.note(at, SlotArray::Scores) - old(done, at);
        let sum: f32 = of_rows().map(added).sum();
        for at in of_rows() {
            let score = old(done, at) + sum;
            done.after.set_note(at, SlotArray::Scores, score);
        }
    }
}

impl StepDone {
    pub fn seqs(&self) -> usize {
        self.after.seqs()
    }

    pub fn kv_heads(&self) -> usize {
        self.after.layout.kv_heads
    }

    /// Slots of a sequence.
    pub fn slots(&self) -> usize {
        self.after.slots
    }

    /// The filled slots after the step, sequence by sequence and head by head.
    pub fn filled(&self) -> Vec<SlotAt> {
        let filled = self.slots().min(self.past + self.tokens);
        let heads =
            (0..self.seqs()).flat_map(|seq| (0..self.kv_heads()).map(move |head| (seq, head)));
        let of_head =
            |(seq, head)| (0..filled).map(move |slot| SlotAt { seq, layer: 0, head, slot });
        heads.flat_map(of_head).collect()
    }

    /// Which of the step's tokens a slot holds.
    fn live_token(&self, at: SlotAt) -> Option<usize> {
        let token = (self.after.position(at) as usize).checked_sub(self.past);
        token.filter(|token| *token < self.tokens)
    }
}
