//! Attention of a sequence over slots, alone and with the rows of its first chunk spread over
//! steps: on the CPU the same bits as whole and in a batch.

use super::slot_layer::Layer;
use super::slots::{FORMATS, random_rule};
use crate::conformance::report::Report;
use crate::conformance::slot_case::{SlotCase, SlotSpec};
use crate::ops::Ops;
use crate::pages::row_format::RowFormat;
use crate::pages::slot_layout::{SlotLayout, SlotNotes};
use crate::pages::slot_rule::{SlotRule, SlotRuleKind};
use crate::random::SplitMix;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for format in FORMATS.into_iter().chain(FORMATS) {
        if report.skips("cut_slots") {
            continue;
        }
        let mut case = SlotCase::new(random_spec(random, format), random);
        let mut placed = case.place(&ops.device());
        ops.choose_slots(&mut placed.kv());
        (case.slots, case.pages) = (placed.slots(), placed.pages());
        let layer = Layer::new(ops, &case, random);
        let (want, want_pages) = layer.attend(ops, &case);
        let (got, got_pages) = attend_apart(ops, &layer, &case, random);
        let bits = |numbers: &[f32]| -> Vec<u32> { numbers.iter().map(|x| x.to_bits()).collect() };
        report.compare_exactly("cut_slots", layer.name(&case), &bits(&got), &bits(&want));
        let name = format!("pages {}", layer.name(&case));
        report.compare_exactly("cut_slots", name, &got_pages, &want_pages);
    }
}

/// One sequence after the other, first chunks in pieces.
fn attend_apart(
    ops: &Ops,
    layer: &Layer,
    case: &SlotCase,
    random: &mut SplitMix,
) -> (Vec<f32>, Vec<u8>) {
    let (mut out, mut pages) = (Vec::new(), case.pages.clone());
    for (seq, (rule, _)) in case.spec.seqs.iter().enumerate() {
        let live = case.live_rows(seq);
        let mut start = live.start;
        while start < live.end {
            let end = match rule.past {
                0 => live.end.min(start + 1 + random.below(90)),
                _ => live.end,
            };
            let part = case.part(seq, start..end, pages);
            let (part_out, part_pages) = layer.rows(start..end, case.tokens()).attend(ops, &part);
            out.extend(part_out);
            (pages, start) = (part_pages, end);
        }
    }
    (out, pages)
}

/// A generated token, a first chunk and a later one.
fn random_spec(random: &mut SplitMix, format: RowFormat) -> SlotSpec {
    let dim = [8, 24, 64, 80][random.below(4)];
    let layout = SlotLayout {
        layers: 1 + random.below(2),
        kv_heads: 1 + random.below(2),
        page_slots: [1, 16, 29, 64][random.below(4)],
        key_dim: dim,
        value_dim: dim,
        keys: format,
        values: FORMATS[random.below(FORMATS.len())],
        notes: SlotNotes { scores: true, value_norms: random.below(2) == 0, errors: false },
    };
    let kind = [SlotRuleKind::Keep, SlotRuleKind::Recent, SlotRuleKind::Scored][random.below(3)];
    let (first, later) = (1 + random.below(200), 1 + random.below(200));
    let slots = 400 + random.below(100);
    let mut later_rule = |live| {
        let past = slots + random.below(slots);
        let rule = random_rule(random, &layout, past, slots, live, SlotRuleKind::Scored);
        (SlotRule { first_chunk: slots as i32, ..rule }, live)
    };
    let (single, later) = (later_rule(1), later_rule(later));
    let first_rule = SlotRule {
        protected: random.below(20) as i32,
        first_chunk: slots as i32,
        ..SlotRule::new(kind, 0, slots)
    };
    SlotSpec { layout, seqs: vec![single, (first_rule, first), later], scorers: Vec::new() }
}
