//! Slots chosen and attended to, held to the CPU's lowest level in f32.
//!
//! Both devices start from the same pages in every case: from equal scores the same slots must be
//! chosen, to the last tie.

use std::sync::Arc;

use super::read_rope;
use super::slot_layer::Layer;
use crate::conformance::report::Report;
use crate::conformance::slot_case::{Fading, SlotCase, SlotSpec};
use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::{Compute, CpuOptions};
use crate::ops::{Ops, Table};
use crate::pages::row_format::RowFormat;
use crate::pages::slot_layout::{SlotLayout, SlotNotes};
use crate::pages::slot_rule::{SlotRule, SlotRuleKind};
use crate::pages::slot_scorer::SlotScorer;
use crate::quantise::Quantiser;
use crate::random::SplitMix;

/// Norms of rows, summed in another order.
const NOTE_TOLERANCE: f64 = 1e-5;

pub(super) const FORMATS: [RowFormat; 8] = [
    RowFormat::F32,
    RowFormat::F16,
    RowFormat::Bf16,
    RowFormat::Quantised(Quantiser::Asymmetric8),
    RowFormat::Quantised(Quantiser::Asymmetric4),
    RowFormat::Quantised(Quantiser::Dynamic8),
    RowFormat::Quantised(Quantiser::Float4),
    RowFormat::Quantised(Quantiser::Fp8),
];

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    let level = CpuLevel::available()[0];
    let options = CpuOptions { threads: 1, level: Some(level), compute: Compute::F32 };
    let plain = Ops::cpu(options).expect("the lowest level is available");
    let mut cases = Vec::new();
    // The CPU's own tests hold it to the policies; here it has a few cases.
    let is_cuda = matches!(ops.table, Table::Cuda(_));
    for i in 0..if is_cuda { 48 } else { 24 } {
        if report.skips("choose_slots") {
            continue;
        }
        let mut spec = random_spec(random, i, is_cuda);
        if !is_cuda {
            spec.scorers = some_scorers(random, &spec);
        }
        let mut case = SlotCase::new(spec, random);
        choose(&plain, ops, &mut case, report);
        cases.push(case);
    }
    for format in FORMATS.into_iter().filter(|_| is_cuda) {
        if report.skips("choose_slots") {
            continue;
        }
        let mut case = SlotCase::new(long_chunk_spec(random, format), random);
        choose(&plain, ops, &mut case, report);
        cases.push(case);
    }
    for (slots, live) in [(2048, 1), (9000, 1), (3000, 700), (9000, 5000)] {
        if report.skips("choose_slots") {
            continue;
        }
        let layout = SlotLayout { page_slots: 37, ..large_layout() };
        let past = slots + random.below(slots);
        let rule = random_rule(random, &layout, past, slots, live, SlotRuleKind::Scored);
        let spec = SlotSpec { layout, seqs: vec![(rule, live)], scorers: Vec::new() };
        let mut case = SlotCase::new(spec, random);
        choose(&plain, ops, &mut case, report);
    }
    let other = other_threads(ops);
    for case in &cases {
        let layer = Layer::new(ops, case, random);
        attend(&plain, ops, other.as_ref(), case, &layer, report);
        let layer = read_rope::layer(ops, case, random);
        attend(&plain, ops, other.as_ref(), case, &layer, report);
        read_rope::check_rotated_before(&plain, ops, case, &layer, report);
    }
    if is_cuda {
        let singles = cases.iter().filter(|case| case.spec.seqs.iter().all(|(_, live)| *live == 1));
        singles.for_each(|case| attend_without_last(ops, case, random, report));
    }
}

/// A step whose last sequence is none: nothing is written for it but zeros, and the others get what
/// they get beside it.
fn attend_without_last(ops: &Ops, case: &SlotCase, random: &mut SplitMix, report: &mut Report) {
    let layer = Layer::new(ops, case, random);
    let (mut want, want_pages) = layer.attend(ops, case);
    let width = want.len() / case.tokens();
    let others = want.len() - width;
    want[others..].fill(0.0);
    let mut without = case.clone();
    without.drop_last();
    let (got, got_pages) = layer.attend(ops, &without);
    let name = format!("without the last, {}", layer.name(case));
    report.compare_exactly("absent_slots", name.clone(), &got, &want);
    let want_pages = case.pages_of_last_from(&want_pages, &case.pages);
    report.compare_exactly("absent_slots", format!("pages {name}"), &got_pages, &want_pages);
    let mut placed = without.place(&ops.device());
    ops.choose_slots(&mut placed.kv());
    let kept = case.pages_of_last_from(&placed.pages(), &case.pages);
    report.compare_exactly("absent_slots", format!("choice {name}"), &placed.pages(), &kept);
}

/// The same ops with more threads, on the CPU.
fn other_threads(ops: &Ops) -> Option<Ops> {
    let Table::Cpu(ops) = &ops.table else { return None };
    let (threads, level) = (ops.threads() + 1, Some(ops.level()));
    let options = CpuOptions { threads, level, compute: ops.compute() };
    Some(Ops::cpu(options).expect("the level is available"))
}

fn attend(
    plain: &Ops,
    ops: &Ops,
    other: Option<&Ops>,
    case: &SlotCase,
    layer: &Layer,
    report: &mut Report,
) {
    let (want, want_pages) = layer.attend(plain, case);
    let (got, got_pages) = layer.attend(ops, case);
    if let Some(other) = other {
        let bits = |numbers: &[f32]| -> Vec<u32> { numbers.iter().map(|x| x.to_bits()).collect() };
        let (out, pages) = layer.attend(other, case);
        let name = format!("threads {}", layer.name(case));
        report.compare_exactly("attend_slots", name.clone(), &bits(&got), &bits(&out));
        report.compare_exactly("attend_slots", name, &got_pages, &pages);
    }
    let (name, formats) = (layer.name(case), [case.spec.layout.keys, case.spec.layout.values]);
    let page_limit = formats.into_iter().map(step_of).fold(0.0, f64::max);
    // Norms summed in another order may move a number to the next that the format has.
    let page_limit = if layer.norms.is_some() { page_limit } else { 0.0 };
    let limit = layer.tolerance(ops).max(page_limit);
    report.compare("attend_slots", name.clone(), limit, &got, &want);
    let (got, want) = (case.held(&got_pages, layer.layer), case.held(&want_pages, layer.layer));
    report.compare_exactly(
        "attend_slots",
        format!("positions {name}"),
        &got.positions,
        &want.positions,
    );
    report.compare("attend_slots", format!("rows {name}"), page_limit, &got.rows, &want.rows);
    report.compare("attend_slots", format!("scores {name}"), limit, &got.scores, &want.scores);
    let note_limit = NOTE_TOLERANCE.max(page_limit);
    report.compare("attend_slots", format!("notes {name}"), note_limit, &got.notes, &want.notes);
}

/// Chooses on both; the case goes on with what the CPU has chosen.
fn choose(plain: &Ops, ops: &Ops, case: &mut SlotCase, report: &mut Report) {
    let chosen = [plain, ops].map(|ops| {
        let mut placed = case.place(&ops.device());
        ops.choose_slots(&mut placed.kv());
        (placed.slots(), placed.pages())
    });
    let [want, got] = chosen;
    let name = format!("{:?}", case.spec);
    report.compare_exactly("choose_slots", name.clone(), &got.0, &want.0);
    report.compare_exactly("choose_slots", format!("pages {name}"), &got.1, &want.1);
    (case.slots, case.pages) = want;
}

/// The largest step of a format's numbers, in units of a row's largest.
fn step_of(format: RowFormat) -> f64 {
    match format {
        RowFormat::F32 => 2e-6,
        RowFormat::F16 => 1.0 / 1024.0,
        RowFormat::Bf16 => 1.0 / 128.0,
        RowFormat::Quantised(Quantiser::Asymmetric8) => 1.0 / 100.0,
        RowFormat::Quantised(Quantiser::Fp8) => 1.0 / 14.0,
        RowFormat::Quantised(Quantiser::Dynamic8) => 1.0 / 50.0,
        RowFormat::Quantised(Quantiser::Asymmetric4) => 1.0 / 6.0,
        RowFormat::Quantised(Quantiser::Float4) => 1.0 / 2.5,
    }
}

fn large_layout() -> SlotLayout {
    SlotLayout {
        layers: 2,
        kv_heads: 3,
        page_slots: 16,
        key_dim: 2,
        value_dim: 2,
        keys: RowFormat::Bf16,
        values: RowFormat::Bf16,
        notes: SlotNotes { scores: true, value_norms: true, errors: true },
    }
}

/// `long`: some sequences have more slots than a GPU's block takes.
fn random_spec(random: &mut SplitMix, i: usize, long: bool) -> SlotSpec {
    let keys = FORMATS[i % FORMATS.len()];
    let values = if i.is_multiple_of(3) { FORMATS[random.below(FORMATS.len())] } else { keys };
    let dims = [2, 8, 16, 24, 64, 80, 128, 256];
    // The widths that tensor cores take have their turn more often.
    let dim = if i.is_multiple_of(2) {
        [64, 128][random.below(2)]
    } else {
        dims[random.below(dims.len())]
    };
    let scores = random.below(4) > 0;
    let layout = SlotLayout {
        layers: 1 + random.below(3),
        kv_heads: 1 + random.below(3),
        page_slots: [1, 3, 16, 29, 64][random.below(5)],
        key_dim: dim,
        value_dim: dim,
        keys,
        values,
        notes: SlotNotes {
            scores,
            value_norms: scores && random.below(2) == 0,
            errors: scores && random.below(2) == 0,
        },
    };
    let seqs = 1 + random.below(4);
    let singles = if i.is_multiple_of(3) { seqs } else { random.below(seqs + 1) };
    let mut seq = |index: usize| {
        let most = if long && index < singles { 5000 } else { 600 };
        let slots = [8, 17, 64, 130, 600, most][random.below(6)];
        let kind = match random.below(4) {
            0 => SlotRuleKind::Keep,
            1 => SlotRuleKind::Recent,
            _ if scores => SlotRuleKind::Scored,
            _ => SlotRuleKind::Recent,
        };
        let past = [0, slots / 2, slots, slots, slots + random.below(2 * slots)][random.below(5)];
        let past = if kind == SlotRuleKind::Keep { past.min(slots / 2) } else { past };
        let most = if past < slots { slots - past } else { slots / 2 };
        let longest = [70, 70, 300][random.below(3)];
        let live = if index < singles { 1 } else { 1 + random.below(most.min(longest)) };
        (random_rule(random, &layout, past, slots, live, kind), live)
    };
    SlotSpec { layout, seqs: (0..seqs).map(&mut seq).collect(), scorers: Vec::new() }
}

/// Of every other sequence with scores, a score of its own.
fn some_scorers(random: &mut SplitMix, spec: &SlotSpec) -> Vec<Option<Arc<dyn SlotScorer>>> {
    let scorer = |(rule, _): &(SlotRule, usize)| {
        let own = rule.kind == SlotRuleKind::Scored && random.below(2) == 0;
        own.then(|| Arc::new(Fading) as Arc<dyn SlotScorer>)
    };
    spec.seqs.iter().map(scorer).collect()
}

/// A single row, and a chunk that takes several of a GPU's tiles of rows and of slots.
fn long_chunk_spec(random: &mut SplitMix, format: RowFormat) -> SlotSpec {
    let dim = [64, 128][random.below(2)];
    let layout = SlotLayout {
        layers: 1,
        kv_heads: 1 + random.below(2),
        page_slots: [1, 7, 16, 64][random.below(4)],
        key_dim: dim,
        value_dim: dim,
        keys: format,
        values: if random.below(3) == 0 { RowFormat::Bf16 } else { format },
        notes: SlotNotes { scores: true, value_norms: random.below(2) == 0, errors: false },
    };
    let chunk = 129 + random.below(130);
    let mut seq = |live: usize| {
        let slots = 520 + random.below(200);
        let past = [slots - live, slots, slots + random.below(slots)][random.below(3)];
        (random_rule(random, &layout, past, slots, live, SlotRuleKind::Scored), live)
    };
    SlotSpec { layout, seqs: vec![seq(1), seq(chunk)], scorers: Vec::new() }
}

/// `live` is at most half of the slots where the cache is full.
pub(super) fn random_rule(
    random: &mut SplitMix,
    layout: &SlotLayout,
    past: usize,
    slots: usize,
    live: usize,
    kind: SlotRuleKind,
) -> SlotRule {
    let evictable = (slots - live) / 2;
    let protected = random.below(evictable.clamp(1, 20)) as i32;
    let first_chunk = [past.min(slots), past / 2, past, past + 1][random.below(4)];
    let weighs = |random: &mut SplitMix, wanted: bool| wanted && random.below(2) == 0;
    SlotRule {
        past: past as i32,
        slots: slots as i32,
        kind,
        protected: if past < slots { protected.min(past as i32) } else { protected },
        grace: if kind == SlotRuleKind::Scored { random.below(evictable.max(1)) as i32 } else { 0 },
        initial: random.below(slots) as i32,
        first_chunk: first_chunk as i32,
        per_age: random.below(2) == 0 && first_chunk <= past,
        by_value_norm: weighs(random, layout.notes.value_norms),
        score_fraction: if weighs(random, layout.notes.errors) { 0.6 } else { 1.0 },
        rerotated: if random.below(4) == 0 { random.below(past + 1) as i32 } else { 0 },
    }
}
