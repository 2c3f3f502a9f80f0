//! A run of the original's cache: its rows as sequences of one batch on a device.
//!
//! Slots, positions and numbers must be the original's. With a grace period its newest tokens move
//! from a ring of slots to others, while ours stay where they are: then the same tokens must leave
//! and the same be held, in whatever slots.

use std::ops::Range;

use terrace_kernels::{RowFormat, SlotLayout};

use super::case_kinds::PolicyRun;
use super::driven_slots::{DrivenSlots, PagedOps, RunShape, SeqOut, SeqStep};
use super::error::GoldenError;
use super::host_slots::{SlotArray, SlotAt};
use super::policy_case::PolicyCase;
use super::quirks::StepDone;
use crate::policy::Rule;
use crate::reference::ChunkRows;
use terrace_golden::{GoldenCase, GoldenTensors, SetFindings};

pub(super) struct PolicyCheck<'a> {
    pub golden: &'a GoldenCase<PolicyRun>,
    pub inputs: &'a GoldenTensors,
    pub case: &'a PolicyCase,
}

/// Whether the next step can still be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Going {
    On,
    Ended,
}

/// One head of one sequence at one step.
#[derive(Clone, Copy)]
struct HeadAt {
    step: usize,
    seq: usize,
    /// The sequence's row in the original's batch.
    row: usize,
    head: usize,
}

impl PolicyCheck<'_> {
    pub fn run(&self, on: PagedOps<'_>, findings: &mut SetFindings) -> Result<(), GoldenError> {
        self.run_in(on, self.case.layout, findings, None)
    }

    /// As `run`, with rows in the run's own buffer. The device rounds a step's rows before
    /// attention and the original afterwards, so outputs and scores are only near the original's;
    /// each step goes on from the original's scores, and then tokens and stored rows must be exact.
    pub fn run_quantised(
        &self,
        on: PagedOps<'_>,
        findings: &mut SetFindings,
        rounded: &mut SetFindings,
    ) -> Result<(), GoldenError> {
        let Some(layout) = self.case.quantised else { return Ok(()) };
        self.run_in(on, layout, findings, Some(rounded))
    }

    /// `rounded` is for what is only near the original's, where rows are quantised.
    fn run_in(
        &self,
        on: PagedOps<'_>,
        layout: SlotLayout,
        findings: &mut SetFindings,
        mut rounded: Option<&mut SetFindings>,
    ) -> Result<(), GoldenError> {
        let run = &self.golden.about;
        let shape = RunShape {
            layout: SlotLayout { page_slots: on.page_slots, ..layout },
            heads: run.n_head,
            scale: run.sdpa_scale,
            window: None,
            rotation: Vec::new(),
        };
        let mut slots = DrivenSlots::new(on.ops, shape, self.case.rows.len(), run.cache_length)?;
        // A step of 4 bits is 17 of 8.
        let is_4_bits = [layout.keys, layout.values].iter().any(|format| match format {
            RowFormat::Quantised(quantiser) => quantiser.bits() == 4,
            _ => false,
        });
        let unit = if is_4_bits { 1.0 / 17.0 } else { 1.0 };
        let mut past = 0;
        for (step, &tokens) in run.chunk_sizes.iter().enumerate() {
            let (mut done, outs) = self.step(&mut slots, past, tokens)?;
            match &mut rounded {
                None => self.case.quirks.play(&mut done),
                Some(rounded) => self.take_scores(step, &mut done, unit, rounded)?,
            }
            slots.put(&done.after)?;
            if self.check_tokens(step, &done, &outs, findings)? == Going::Ended {
                return Ok(());
            }
            let near = rounded.as_deref_mut().unwrap_or(&mut *findings);
            self.check_outputs(step, &done, &outs, unit, near)?;
            past += tokens;
            if step + 1 == run.chunk_sizes.len() {
                self.check_rows(&done, findings)?;
            }
        }
        Ok(())
    }

    fn step(
        &self,
        slots: &mut DrivenSlots<'_>,
        past: usize,
        tokens: usize,
    ) -> Result<(StepDone, Vec<Vec<SeqOut>>), GoldenError> {
        let run = &self.golden.about;
        let before = slots.host_slots()?;
        let live = |name, heads| self.live(name, heads, past..past + tokens);
        let query = live("query", run.n_head)?;
        let [keys, values] = [live("key", run.n_query_groups)?, live("value", run.n_query_groups)?];
        let outs = slots.step(&self.steps(past, tokens, [&query, &keys, &values])?)?;
        let after = slots.host_slots()?;
        Ok((StepDone { past, tokens, before, after, live: [keys, values] }, outs))
    }

    /// Scores are near the original's, and become them.
    fn take_scores(
        &self,
        step: usize,
        done: &mut StepDone,
        unit: f32,
        rounded: &mut SetFindings,
    ) -> Result<(), GoldenError> {
        let (run, tensors) = (&self.golden.about, &self.golden.tensors);
        let name = format!("step{step:03}.scores");
        if !done.after.layout.notes.scores || !tensors.has(&name) {
            return Ok(());
        }
        let filled = run.cache_length.min(done.past + done.tokens);
        let all = tensors.f32(&name, [run.batch_size, run.n_query_groups, filled])?;
        for at in self.heads(step) {
            let want = at.of(all, run);
            let score = |slot| done.after.note(at.slot(slot), SlotArray::Scores);
            let got: Vec<f32> = (0..filled).map(score).collect();
            let location = || self.location(at, "scores");
            rounded.compare(&scaled(&got, unit), &scaled(want, unit), location);
            for (slot, score) in want.iter().enumerate() {
                done.after.set_note(at.slot(slot), SlotArray::Scores, *score);
            }
        }
        Ok(())
    }

    /// A step's part of the inputs, `[seqs][heads][tokens][dim]`.
    fn live(
        &self,
        name: &str,
        heads: usize,
        tokens: Range<usize>,
    ) -> Result<Vec<f32>, GoldenError> {
        let PolicyRun { batch_size, head_size: dim, .. } = self.golden.about;
        let [_, all] = self.inputs.dims("token_idx")?;
        let numbers = self.inputs.f32(name, [batch_size, heads, all, dim])?;
        let of_head =
            |head: usize| &numbers[(head * all + tokens.start) * dim..][..tokens.len() * dim];
        let of_row = |(row, _): &(usize, Rule)| row * heads..(row + 1) * heads;
        Ok(self.case.rows.iter().flat_map(of_row).flat_map(of_head).copied().collect())
    }

    fn steps<'r>(
        &self,
        past: usize,
        tokens: usize,
        [query, keys, values]: [&'r [f32]; 3],
    ) -> Result<Vec<SeqStep<'r>>, GoldenError> {
        let run = &self.golden.about;
        let seqs = self.case.rows.len();
        let part = |numbers: &'r [f32], seq: usize| {
            let each = numbers.len() / seqs;
            &numbers[seq * each..(seq + 1) * each]
        };
        let step = |(seq, (_, rule)): (usize, &(usize, Rule))| {
            let policy = |source| GoldenError::Policy { case: self.golden.name.clone(), source };
            let rule = rule.slot_rule(run.cache_length, past, tokens, run.chunk_sizes[0]);
            let [query, keys, values] = [query, keys, values].map(|numbers| part(numbers, seq));
            let rows = vec![ChunkRows { tokens, query, keys, values }];
            Ok(SeqStep { seq, rule: rule.map_err(policy)?, rows })
        };
        self.case.rows.iter().enumerate().map(step).collect()
    }

    /// Which tokens have left, and which are held.
    fn check_tokens(
        &self,
        step: usize,
        done: &StepDone,
        outs: &[Vec<SeqOut>],
        findings: &mut SetFindings,
    ) -> Result<Going, GoldenError> {
        for at in self.heads(step) {
            let chosen = &outs[at.seq][0].slots[at.head * done.tokens..][..done.tokens];
            if self.check_leaving(at, done, chosen, findings)? == Going::Ended
                || self.check_held(at, done, findings)? == Going::Ended
            {
                return Ok(Going::Ended);
            }
        }
        Ok(Going::On)
    }

    /// Numbers count in units of `1 / unit`.
    fn check_outputs(
        &self,
        step: usize,
        done: &StepDone,
        outs: &[Vec<SeqOut>],
        unit: f32,
        findings: &mut SetFindings,
    ) -> Result<(), GoldenError> {
        let run = &self.golden.about;
        let (width, all) = (run.n_head * run.head_size, run.chunk_sizes.iter().sum::<usize>());
        let out = self.golden.tensors.f32("attn_output", [run.batch_size, all, width])?;
        for (seq, (row, _)) in self.case.rows.iter().enumerate() {
            let want = &out[(row * all + done.past) * width..][..done.tokens * width];
            findings.compare(&scaled(&outs[seq][0].out, unit), &scaled(want, unit), || {
                format!("{} step {step} row {row} output", self.golden.name)
            });
        }
        Ok(())
    }

    /// The tokens that left are those of the original, in its order; they may be others only where
    /// two scores are almost equal.
    fn check_leaving(
        &self,
        at: HeadAt,
        done: &StepDone,
        chosen: &[u32],
        findings: &mut SetFindings,
    ) -> Result<Going, GoldenError> {
        let (run, tensors) = (&self.golden.about, &self.golden.tensors);
        let written = at.name("write_slots");
        if !tensors.has(&written) || done.past < run.cache_length {
            return Ok(Going::On);
        }
        let last = HeadAt { step: at.step - 1, ..at };
        let heads = [run.batch_size, run.n_query_groups];
        let slots = run.cache_length;
        let held = last.of(tensors.i32(&last.name("token_pos"), [heads[0], heads[1], slots])?, run);
        let written = at.of(tensors.i32(&written, [heads[0], heads[1], done.tokens])?, run);
        let want: Vec<i32> =
            written.iter().map(|slot| held.get(*slot as usize).copied().unwrap_or(-1)).collect();
        let left = |slot: &u32| done.before.position(at.slot(*slot as usize));
        let got: Vec<i32> = chosen.iter().map(left).collect();
        if got == want {
            return Ok(Going::On);
        }
        let location = || self.location(at, "write_slots");
        let ranked_by = [last.name("selection_scores"), last.name("scores")];
        let Some(name) = ranked_by.iter().find(|name| tensors.has(name)) else {
            findings.compare_exactly(&got, &want, location);
            return Ok(Going::Ended);
        };
        let [_, _, ranked] = tensors.dims(name)?;
        let ranks = last.of(tensors.f32(name, [heads[0], heads[1], ranked])?, run);
        let rank = |position: &i32| {
            let slot = held.iter().position(|held| held == position);
            slot.and_then(|slot| ranks.get(slot)).copied().unwrap_or(f32::NAN)
        };
        let gap = |(got, want): (&i32, &i32)| (rank(got) - rank(want)).abs();
        let close = |pair: (&i32, &i32)| gap(pair) < SetFindings::DECISION_SLACK;
        if got.iter().zip(&want).all(close) {
            findings.close.push(location());
        } else {
            findings.compare_exactly(&got, &want, location);
        }
        Ok(Going::Ended)
    }

    fn check_held(
        &self,
        at: HeadAt,
        done: &StepDone,
        findings: &mut SetFindings,
    ) -> Result<Going, GoldenError> {
        let (run, tensors) = (&self.golden.about, &self.golden.tensors);
        let filled = run.cache_length.min(done.past + done.tokens);
        let dims = [run.batch_size, run.n_query_groups, filled];
        let held = at.held(done, filled);
        let want = at.of(tensors.i32(&at.name("token_pos"), dims)?, run);
        let [order, want_order] = [self.order(&held), self.order(want)];
        let [got, want] = [picked(&held, &order), picked(want, &want_order)];
        if !findings.compare_exactly(&got, &want, || self.location(at, "token_pos")) {
            return Ok(Going::Ended);
        }
        let notes = done.after.layout.notes;
        for (what, array, noted) in [
            ("scores", SlotArray::Scores, notes.scores),
            ("v_norm", SlotArray::ValueNorms, notes.value_norms),
            ("q_errors", SlotArray::Errors, notes.errors),
        ] {
            if noted && tensors.has(&at.name(what)) {
                let want = picked(at.of(tensors.f32(&at.name(what), dims)?, run), &want_order);
                let note = |slot: &usize| done.after.note(at.slot(*slot), array);
                let got: Vec<f32> = order.iter().map(note).collect();
                findings.compare(&got, &want, || self.location(at, what));
            }
        }
        Ok(Going::On)
    }

    /// What the cache holds at the end.
    fn check_rows(&self, done: &StepDone, findings: &mut SetFindings) -> Result<(), GoldenError> {
        let (run, tensors) = (&self.golden.about, &self.golden.tensors);
        let (step, dim) = (run.chunk_sizes.len() - 1, run.head_size);
        let filled = run.cache_length.min(done.past + done.tokens);
        let dims = [run.batch_size, run.n_query_groups, filled];
        let SlotLayout { keys, values, .. } = done.after.layout;
        for (what, array, format) in
            [("final.keys", SlotArray::Keys, keys), ("final.values", SlotArray::Values, values)]
        {
            if !tensors.has(what) {
                continue;
            }
            let all = tensors.f32(what, [dims[0], dims[1], filled, dim])?;
            for at in self.heads(step) {
                let want_held = at.of(tensors.i32(&at.name("token_pos"), dims)?, run);
                let rows: Vec<&[f32]> = at.of(all, run).chunks_exact(dim).collect();
                let mut want = picked(&rows, &self.order(want_held)).concat();
                if let RowFormat::Quantised(quantiser) = format
                    && !self.case.quirks.requantise
                {
                    // The original has not stored them yet.
                    for row in want.chunks_exact_mut(dim) {
                        quantiser.pass(row);
                    }
                }
                let order = self.order(&at.held(done, filled));
                let row = |slot: &usize| done.after.row(at.slot(*slot), array);
                let got: Vec<f32> = order.iter().flat_map(row).collect();
                findings.compare(&got, &want, || format!("{} {what}", self.golden.name));
            }
        }
        Ok(())
    }

    /// All heads of all sequences at a step.
    fn heads(&self, step: usize) -> impl Iterator<Item = HeadAt> {
        let heads = 0..self.golden.about.n_query_groups;
        self.case.rows.iter().enumerate().flat_map(move |(seq, (row, _))| {
            heads.clone().map(move |head| HeadAt { step, seq, row: *row, head })
        })
    }

    fn location(&self, at: HeadAt, what: &str) -> String {
        format!("{} {} of row {} head {}", self.golden.name, at.name(what), at.row, at.head)
    }

    /// Slots as they are compared: as they are, or by the positions they hold where the original
    /// has a ring.
    fn order(&self, positions: &[i32]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..positions.len()).collect();
        if self.case.quirks.ring > 0 {
            order.sort_by_key(|slot| positions[*slot]);
        }
        order
    }
}

impl HeadAt {
    fn name(&self, what: &str) -> String {
        format!("step{:03}.{what}", self.step)
    }

    /// This head's part of `[rows, kv_heads, ..]`.
    fn of<'t, T>(&self, numbers: &'t [T], run: &PolicyRun) -> &'t [T] {
        let each = numbers.len() / (run.batch_size * run.n_query_groups);
        let head = self.row * run.n_query_groups + self.head;
        &numbers[head * each..(head + 1) * each]
    }

    /// Positions of the filled slots.
    fn held(&self, done: &StepDone, filled: usize) -> Vec<i32> {
        (0..filled).map(|slot| done.after.position(self.slot(slot))).collect()
    }

    fn slot(&self, slot: usize) -> SlotAt {
        SlotAt { seq: self.seq, layer: 0, head: self.head, slot }
    }
}

fn scaled(numbers: &[f32], unit: f32) -> Vec<f32> {
    numbers.iter().map(|number| number * unit).collect()
}

fn picked<T: Clone>(items: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|i| items[*i].clone()).collect()
}
