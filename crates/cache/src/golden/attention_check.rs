//! Attention over slots in any order, with how much each was attended to.
//!
//! The slots are laid into the pages by hand; the step's own tokens are written by the op into the
//! slots that hold their positions.

use terrace_kernels::{RowFormat, SlotLayout, SlotNotes, SlotRule, SlotRuleKind};

use super::case_kinds::AttentionCase;
use super::driven_slots::{DrivenSlots, PagedOps, RunShape, SeqStep};
use super::error::GoldenError;
use super::host_slots::{SlotArray, SlotAt};
use crate::reference::ChunkRows;
use terrace_golden::{GoldenCase, SetFindings};

/// Soft caps are in no op.
const KINDS: [&str; 2] = ["plain", "window"];

pub(super) struct AttentionCheck<'a> {
    golden: &'a GoldenCase<AttentionCase>,
    /// `[rows, kv_heads, slots]`
    positions: &'a [i32],
    /// `[rows, kv_heads, slots, dim]`
    keys: &'a [f32],
    values: &'a [f32],
    /// `[rows, heads, tokens, dim]`
    query: &'a [f32],
}

impl<'a> AttentionCheck<'a> {
    pub fn new(golden: &'a GoldenCase<AttentionCase>) -> Result<Self, GoldenError> {
        let about = &golden.about;
        let [rows, kv_heads] = [about.batch_size, about.n_query_groups];
        let (slots, dim, tensors) = (about.kv_len, about.head_size, &golden.tensors);
        Ok(AttentionCheck {
            golden,
            positions: tensors.i32("token_positions", [rows, kv_heads, slots])?,
            keys: tensors.f32("key", [rows, kv_heads, slots, dim])?,
            values: tensors.f32("value", [rows, kv_heads, slots, dim])?,
            query: tensors.f32("query", [rows, about.n_head, about.q_len, dim])?,
        })
    }

    pub fn run(&self, on: PagedOps<'_>, findings: &mut SetFindings) -> Result<(), GoldenError> {
        KINDS.into_iter().try_for_each(|kind| self.run_kind(on, kind, findings))
    }

    fn run_kind(
        &self,
        on: PagedOps<'_>,
        kind: &str,
        findings: &mut SetFindings,
    ) -> Result<(), GoldenError> {
        let AttentionCase { batch_size, n_head, n_query_groups, head_size, .. } = self.golden.about;
        let AttentionCase { q_len, kv_len, scale, sliding_window_size, .. } = self.golden.about;
        let layout = SlotLayout {
            layers: 1,
            kv_heads: n_query_groups,
            page_slots: on.page_slots,
            key_dim: head_size,
            value_dim: head_size,
            keys: RowFormat::F32,
            values: RowFormat::F32,
            notes: SlotNotes { scores: true, ..SlotNotes::default() },
        };
        let window = (kind == "window").then_some(sliding_window_size);
        let shape = RunShape { layout, heads: n_head, scale, window, rotation: Vec::new() };
        let mut run = DrivenSlots::new(on.ops, shape, batch_size, kv_len)?;
        self.lay_out(&mut run)?;
        let Some(own) = self.own_slots() else {
            findings.wrong.push(format!("{}: a query's own token is not held", self.golden.name));
            return Ok(());
        };
        let live: Vec<[Vec<f32>; 2]> = (0..batch_size)
            .map(|row| [self.keys, self.values].map(|all| self.live(all, row, &own)))
            .collect();
        let query = self.query.chunks_exact(n_head * q_len * head_size);
        let steps: Vec<SeqStep<'_>> = query
            .zip(&live)
            .enumerate()
            .map(|(seq, (query, [keys, values]))| SeqStep {
                seq,
                rule: self.rule(),
                rows: vec![ChunkRows { tokens: q_len, query, keys, values }],
            })
            .collect();
        let outs = run.step_into(&steps, &own)?;
        let out: Vec<f32> = outs.iter().flat_map(|seq| self.by_head(&seq[0].out)).collect();
        let dims = [batch_size, n_head, q_len, head_size];
        let want = self.golden.tensors.f32(&format!("{kind}.output"), dims)?;
        findings.compare(&out, want, || format!("{} {kind} output", self.golden.name));
        let host = run.host_slots()?;
        let scores: Vec<f32> =
            self.all_slots().map(|at| host.note(at, SlotArray::Scores)).collect();
        let dims = [batch_size, n_query_groups, kv_len];
        let want = self.golden.tensors.f32(&format!("{kind}.attn_weights"), dims)?;
        findings.compare(&scores, want, || format!("{} {kind} weights", self.golden.name));
        Ok(())
    }

    fn lay_out(&self, run: &mut DrivenSlots<'_>) -> Result<(), GoldenError> {
        let mut host = run.host_slots()?;
        let dim = self.golden.about.head_size;
        for (i, at) in self.all_slots().enumerate() {
            host.set_plain_row(at, SlotArray::Keys, &self.keys[i * dim..(i + 1) * dim]);
            host.set_plain_row(at, SlotArray::Values, &self.values[i * dim..(i + 1) * dim]);
            let position = self.positions[i].to_le_bytes();
            host.bytes_mut(at, SlotArray::Positions).copy_from_slice(&position);
            host.set_note(at, SlotArray::Scores, 0.0);
        }
        Ok(run.put(&host)?)
    }

    fn all_slots(&self) -> impl Iterator<Item = SlotAt> + use<> {
        let AttentionCase { batch_size, n_query_groups, kv_len, .. } = self.golden.about;
        let heads = n_query_groups;
        (0..batch_size * heads * kv_len).map(move |i| SlotAt {
            seq: i / (heads * kv_len),
            layer: 0,
            head: i / kv_len % heads,
            slot: i % kv_len,
        })
    }

    /// Slots of the queries' own tokens, `[rows, tokens, kv_heads]`.
    fn own_slots(&self) -> Option<Vec<i32>> {
        let AttentionCase { batch_size, n_query_groups, q_len, kv_len, input_pos, .. } =
            self.golden.about;
        let heads: Vec<&[i32]> = self.positions.chunks_exact(kv_len).collect();
        let mut own = Vec::new();
        for row in 0..batch_size {
            for position in input_pos..input_pos + q_len {
                for head in 0..n_query_groups {
                    let held = heads[row * n_query_groups + head];
                    let slot = held.iter().position(|held| *held == position as i32)?;
                    own.push(slot as i32);
                }
            }
        }
        Some(own)
    }

    /// A row's keys or values of its own tokens, `[kv_heads][tokens][dim]`.
    fn live(&self, all: &[f32], row: usize, own: &[i32]) -> Vec<f32> {
        let AttentionCase { n_query_groups, q_len, kv_len, head_size, .. } = self.golden.about;
        let of = |head: usize, token: usize| {
            let slot = own[(row * q_len + token) * n_query_groups + head] as usize;
            &all[((row * n_query_groups + head) * kv_len + slot) * head_size..][..head_size]
        };
        let tokens =
            (0..n_query_groups).flat_map(|head| (0..q_len).map(move |token| (head, token)));
        tokens.flat_map(|(head, token)| of(head, token)).copied().collect()
    }

    /// Its weights are added to scores.
    fn rule(&self) -> SlotRule {
        let AttentionCase { input_pos, kv_len, .. } = self.golden.about;
        SlotRule::new(SlotRuleKind::Scored, input_pos, kv_len)
    }

    /// `[tokens][heads][dim]` as `[heads][tokens][dim]`.
    fn by_head(&self, out: &[f32]) -> Vec<f32> {
        let AttentionCase { n_head, q_len, head_size, .. } = self.golden.about;
        let rows = (0..n_head).flat_map(|head| (0..q_len).map(move |token| (head, token)));
        let row = |(head, token): (usize, usize)| {
            &out[(token * n_head + head) * head_size..][..head_size]
        };
        rows.flat_map(row).copied().collect()
    }
}
