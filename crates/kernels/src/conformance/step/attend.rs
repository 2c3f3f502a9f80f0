//! One layer's way from queries, keys and values to the attended rows, and into the pages.

use std::ops::Range;

use terrace_device::DType;

use super::placed_norms::{EPS, PlacedNorms};
use crate::attention::attend_args::AttendArgs;
use crate::conformance::kv_case::scale;
use crate::conformance::numbers::{rounded, rounded_rows};
use crate::conformance::placed::Placed;
use crate::conformance::{KvCase, KvSpec, Report, SplitMix};
use crate::elementwise::rope::{RopeAngles, RopeStyle};
use crate::elementwise::{rms_norm, rope};
use crate::linear::row_kinds::RowKinds;
use crate::ops::{Ops, Table};
use crate::pages::kv_layout::{GroupKv, KvLayout};
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;

/// Weighted means of numbers below 1, with an exponential of 2 units in the last place and keys
/// that were rotated.
const ATTEND_TOLERANCE: f64 = 8e-6;
/// Queries and weights may be rounded to bf16 on their way.
const ATTEND_TOLERANCE_BF16: f64 = 1.0 / 64.0;

const DTYPES: [DType; 5] = [DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2];

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for i in 0..30 {
        if report.skips("attend") {
            continue;
        }
        let (spec, norms) = (random_spec(random, i), random.below(3) == 0);
        let style = [RopeStyle::Halves, RopeStyle::Interleaved][random.below(2)];
        let mut case = AttendCase::new(ops, spec, style, norms, random);
        let attended = case.attend(ops, Form::Attend);
        case.compare_with_reference(ops, "attend", &attended, report);
    }
}

/// The pure step against the one that serving runs, and both against the reference: every type of
/// pages in three sizes, with one row and with many, half of them in heads for tensor cores.
pub(super) fn check_pure(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for i in 0..30 {
        if report.skips("attend_pure") {
            continue;
        }
        let mut spec = random_spec(random, i);
        spec.layout.page_tokens = [1, 16, 64][i / 10];
        if i % 4 < 2 {
            let dim = [64, 128][random.below(2)];
            (spec.layout.key_dim, spec.layout.value_dim) = (dim, dim);
        }
        let (style, norms) = (RopeStyle::Halves, random.below(2) == 0);
        let mut case = AttendCase::new(ops, spec, style, norms, random);
        let [attended, pure] = [Form::Attend, Form::Pure].map(|form| case.attend(ops, form));
        case.compare_with_reference(ops, "attend_pure", &attended, report);
        case.compare_with_reference(ops, "attend_pure", &pure, report);
        let (name, limit) = (case.name(), case.limit(ops));
        report.compare("attend_pure", format!("forms {name}"), limit, &attended.out, &pure.out);
        report.compare_exactly(
            "attend_pure",
            format!("pages of forms {name}"),
            &attended.pages,
            &pure.pages,
        );
    }
}

/// Which op attends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Attend,
    Pure,
}

/// What an op writes: `[tokens, heads * dim]`, and the pages' bytes.
struct Attended {
    out: Vec<f32>,
    pages: Vec<u8>,
}

/// Whether prompts attend in bf16 on the CPU.
pub(super) fn has_matrix_units(ops: &Ops) -> bool {
    matches!(&ops.table, Table::Cpu(ops) if ops.ctx.has_prompt_tiles())
}

/// A page's largest number may be off by one unit of its last place.
fn page_limit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        DType::F8E4m3 => 1.0 / 14.0,
        DType::F8E5m2 => 1.0 / 7.0,
        _ => 2e-6,
    }
}

/// The numbers of pages, and 0 where nothing should be written and nothing was.
fn known(pages: &[f32], want: &[f32]) -> Vec<f32> {
    let untouched = |(x, want): (&f32, &f32)| x.is_nan() && want.is_nan();
    pages.iter().zip(want).map(|pair| if untouched(pair) { 0.0 } else { *pair.0 }).collect()
}

fn random_spec(random: &mut SplitMix, i: usize) -> KvSpec {
    let dtype = DTYPES[i % DTYPES.len()];
    // Scales of fp8 pages lie at multiples of 4 bytes.
    let least = if dtype.bytes() == 1 { 4 } else { 2 };
    let dims = [least, 8, 16, 32, 64, 80, 96, 128, 256];
    let (kv_heads, dim) = (1 + random.below(3), dims[random.below(dims.len())]);
    let layout = PageLayout {
        layers: 1 + random.below(3),
        kv_heads,
        page_tokens: [1, 2, 3, 16, 64][random.below(5)],
        key_dim: dim,
        value_dim: dim,
        dtype,
    };
    let mut seq = |_| {
        let past = [0, 1, 15, 63, 64, 65, 200, 400][random.below(8)];
        // Every other step has one token for each sequence.
        [past, if i.is_multiple_of(2) { 1 } else { 1 + [0, 1, 5, 40, 70][random.below(5)] }]
    };
    let seqs = (0..1 + i % 5).map(&mut seq).collect();
    KvSpec {
        layout,
        layer: random.below(layout.layers),
        heads: kv_heads * [1, 2, 3, 4, 8][random.below(5)],
        window: (random.below(3) == 0).then(|| [1, 2, 17, 64, 1000][random.below(5)]),
        seqs,
        prompt_tokens: [0, 30, usize::MAX][random.below(3)],
    }
}

struct AttendCase {
    /// Its live rows are what the op should make of `qkv`.
    kv: KvCase,
    qkv: Vec<f32>,
    cos: Vec<f32>,
    sin: Vec<f32>,
    style: RopeStyle,
    /// Of queries and of keys.
    norms: Option<[Vec<f32>; 2]>,
}

impl AttendCase {
    fn new(ops: &Ops, spec: KvSpec, style: RopeStyle, norms: bool, random: &mut SplitMix) -> Self {
        let kv = KvCase::new(spec, random);
        let (tokens, dim) = (kv.tokens(), kv.spec.layout.key_dim);
        // Some elements behind the rotated ones.
        let pairs = 1 + random.below(dim / 2);
        let angles: Vec<f32> = random.numbers(tokens * pairs);
        let columns = (kv.spec.heads + 2 * kv.spec.layout.kv_heads) * dim;
        let mut case = AttendCase {
            qkv: rounded(random.numbers(tokens * columns), ops.activation()),
            cos: angles.iter().map(|angle| (3.0 * angle).cos()).collect(),
            sin: angles.iter().map(|angle| (3.0 * angle).sin()).collect(),
            style,
            norms: norms.then(|| [random.numbers(dim), random.numbers(dim)]),
            kv,
        };
        case.set_live_rows();
        case
    }

    fn compare_with_reference(
        &self,
        ops: &Ops,
        op: &'static str,
        attended: &Attended,
        report: &mut Report,
    ) {
        let name = self.name();
        let want = self.kv.attention_wanted();
        report.compare(op, name.clone(), self.limit(ops), &attended.out, &want);
        let limit = page_limit(self.kv.spec.layout.dtype);
        let want = self.kv.page_numbers(&self.kv.pages_after_commit());
        let got = self.kv.page_numbers(&attended.pages);
        let (got, want) = (known(&got, &want), known(&want, &want));
        report.compare(op, format!("pages {name}"), limit, &got, &want);
    }

    fn limit(&self, ops: &Ops) -> f64 {
        let limit = match (ops.activation(), self.kv.spec.layout.dtype) {
            (DType::F32, DType::F32) => ATTEND_TOLERANCE,
            // A rotation that is rounded otherwise may round a page's number the other way.
            (DType::F32, page) => (4.0 * page_limit(page)).min(1.0 / 16.0),
            _ => ATTEND_TOLERANCE_BF16,
        };
        if has_matrix_units(ops) { limit.max(ATTEND_TOLERANCE_BF16) } else { limit }
    }

    fn attend(&mut self, ops: &Ops, form: Form) -> Attended {
        let (device, act, spec) = (ops.device(), ops.activation(), self.kv.spec.clone());
        let (tokens, layout) = (self.kv.tokens(), spec.layout);
        let columns = self.qkv.len() / tokens;
        let pairs = self.cos.len() / tokens;
        let mut qkv = Placed::numbers(&device, act, &self.qkv, [tokens, columns]);
        let cos = Placed::of(&device, &self.cos, [tokens, pairs]);
        let sin = Placed::of(&device, &self.sin, [tokens, pairs]);
        let norms = PlacedNorms::new(ops, self.norms.as_ref());
        let wanted = match form {
            Form::Attend => ops.attend_scratch(&KvLayout::Dense(layout), spec.heads),
            Form::Pure => ops.pure_scratch(&layout, spec.heads),
        };
        let mut scratch = Placed::poisoned(&device, wanted.dtype, [tokens, wanted.columns]);
        let mut out = Placed::poisoned(&device, act, [tokens, spec.heads * layout.value_dim]);

        let host = self.kv.paged_kv();
        host.check();
        let mut pages =
            Placed::of(&device, host.pages.as_view().as_slice::<u8>(), host.pages.shape());
        let array = |view: terrace_device::View<'_>| {
            Placed::of(&device, view.as_slice::<i32>(), view.shape())
        };
        let (tables, past) = (array(host.block_tables), array(host.past_tokens));
        let (starts, slots) = (array(host.live_starts), array(host.commit_slots));
        let (tiles, row_seqs) = (array(host.chunk_tiles), array(host.row_seqs));
        let mut kv = PagedKv {
            layout,
            pages: pages.view_mut(),
            block_tables: tables.view(),
            past_tokens: past.view(),
            live_starts: starts.view(),
            commit_slots: slots.view(),
            singles: host.singles,
            chunk_tiles: tiles.view(),
            row_seqs: row_seqs.view(),
        };
        let [prompt, generated] = &self.kv.row_kinds();
        let args = AttendArgs {
            qkv: qkv.view_mut(),
            heads: spec.heads,
            row_kinds: RowKinds::Listed { prompt, generated },
            first_row: 0,
            norms: norms.args(),
            angles: RopeAngles { cos: cos.view(), sin: sin.view() },
            rerotated: None,
            rope_style: self.style,
            layer: spec.layer,
            scale: scale(layout),
            window: spec.window,
            scratch: scratch.view_mut(),
            out: out.view_mut(),
        };
        match form {
            Form::Attend => ops.attend(args, &mut GroupKv::Dense(kv)),
            Form::Pure => ops.attend_pure(args, &mut kv),
        }
        Attended { out: out.to_numbers(), pages: pages.bytes() }
    }

    /// Norms and rotates the live queries and keys, and rounds keys and values as pages have them.
    fn set_live_rows(&mut self) {
        let KvSpec { layout, heads, seqs, .. } = self.kv.spec.clone();
        let (dim, kv_heads) = (layout.key_dim, layout.kv_heads);
        let columns = (heads + 2 * kv_heads) * dim;
        let mut token = 0;
        for (seq, [past, live]) in seqs.into_iter().enumerate() {
            for position in past..past + live {
                let row = self.qkv[token * columns..][..columns].to_vec();
                let (query, rest) = row.split_at(heads * dim);
                let (key, value) = rest.split_at(kv_heads * dim);
                let query = self.prepared(query, 0, token);
                let key = rounded_rows(self.prepared(key, 1, token), dim, layout.dtype);
                let value = rounded_rows(value.to_vec(), dim, layout.dtype);
                self.kv.q[seq][places(position, query.len())].copy_from_slice(&query);
                self.kv.keys[seq][places(position, key.len())].copy_from_slice(&key);
                self.kv.values[seq][places(position, value.len())].copy_from_slice(&value);
                token += 1;
            }
        }
    }

    /// One token's queries (`which` 0) or keys (1), normed and rotated.
    fn prepared(&self, heads: &[f32], which: usize, token: usize) -> Vec<f32> {
        let (mut heads, dim) = (heads.to_vec(), self.kv.spec.layout.key_dim);
        let pairs = self.cos.len() / self.kv.tokens();
        let (cos, sin) = (&self.cos[places(token, pairs)], &self.sin[places(token, pairs)]);
        for head in heads.chunks_exact_mut(dim) {
            if let Some(norms) = &self.norms {
                rms_norm::reference::norm_in_place(head, &norms[which], EPS);
            }
            match self.style {
                RopeStyle::Halves => rope::reference::rotate_halves(head, cos, sin),
                RopeStyle::Interleaved => rope::reference::rotate_interleaved(head, cos, sin),
            }
        }
        heads
    }

    fn name(&self) -> String {
        let KvSpec { layout, heads, window, seqs, .. } = &self.kv.spec;
        let heads = format!("{heads}/{} heads of {}", layout.kv_heads, layout.key_dim);
        let norms = if self.norms.is_some() { "norms, " } else { "" };
        format!(
            "{} pages of {}, {heads}, {norms}{:?}, window {window:?}, seqs {seqs:?}",
            layout.dtype.name(),
            layout.page_tokens,
            self.style,
        )
    }
}

/// Row `row` of a matrix.
fn places(row: usize, width: usize) -> Range<usize> {
    row * width..(row + 1) * width
}
