//! One layer's live rows over slots, run on a device.

use std::ops::Range;

use terrace_device::DType;

use super::attend::has_matrix_units;
use super::placed_norms::PlacedNorms;
use crate::attention::attend_args::{AttendArgs, RerotatedRope};
use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::slot_case::{SlotCase, SlotSpec, name};
use crate::elementwise::rope::{RopeAngles, RopeStyle};
use crate::elementwise::rope_angles::reference::angles;
use crate::linear::row_kinds::RowKinds;
use crate::ops::Ops;
use crate::pages::kv_layout::{GroupKv, KvLayout};
use crate::pages::slot_kv::ReadRope;
use crate::pages::slot_rule::SlotRule;
use crate::random::SplitMix;

/// Rows of the step before those of the slots.
const FIRST_ROW: usize = 5;
/// Weighted means of numbers below 1, in f32.
pub(super) const TOLERANCE: f64 = 1e-5;
/// Queries and weights may be rounded to bf16 on their way.
const TOLERANCE_BF16: f64 = 1.0 / 64.0;

/// One layer's live rows and what is done with them.
#[derive(Clone)]
pub(super) struct Layer {
    pub(super) layer: usize,
    heads: usize,
    pub(super) style: RopeStyle,
    window: Option<usize>,
    qkv: Vec<f32>,
    /// Radians per position of each pair.
    inv_freq: Vec<f32>,
    /// Angles of rows, and of queries as protected keys see them; cosines and sines.
    angles: [Vec<f32>; 2],
    rerotated: Option<[Vec<f32>; 2]>,
    pub(super) norms: Option<[Vec<f32>; 2]>,
    pub(super) scale: f32,
    /// Frequencies and scales of sequences whose keys are rotated on read.
    pub(super) read_rope: Option<[Vec<f32>; 2]>,
    /// First tokens of each sequence that are its prompt.
    prompt_tokens: usize,
}

impl Layer {
    pub(super) fn new(ops: &Ops, case: &SlotCase, random: &mut SplitMix) -> Self {
        let (layout, tokens) = (case.spec.layout, case.tokens());
        let (dim, heads) = (layout.key_dim, layout.kv_heads * [1, 2, 3, 4, 8, 12][random.below(6)]);
        // In some models elements behind the rotated ones.
        let pairs = [dim / 2, dim / 2, 1 + random.below(dim / 2)][random.below(3)];
        let slower = |pair: usize| 10_000f32.powf(-(pair as f32) / pairs as f32);
        let inv_freq: Vec<f32> = (0..pairs).map(slower).collect();
        let columns = (heads + 2 * layout.kv_heads) * dim;
        let mut layer = Layer {
            layer: random.below(layout.layers),
            heads,
            style: [RopeStyle::Halves, RopeStyle::Interleaved][random.below(2)],
            window: (random.below(4) == 0).then(|| [1, 7, 64][random.below(3)]),
            qkv: rounded(random.numbers(tokens * columns), ops.activation()),
            angles: Default::default(),
            rerotated: None,
            norms: (random.below(4) == 0).then(|| [random.numbers(dim), random.numbers(dim)]),
            scale: 3.0 / (dim as f32).sqrt(),
            read_rope: None,
            prompt_tokens: [0, random.below(200), usize::MAX][random.below(3)],
            inv_freq,
        };
        layer.rotate(case, &layer.inv_freq.repeat(case.spec.seqs.len()));
        layer
    }

    /// Rotates the rows of each sequence by frequencies of its own · inv_freqs: `[seqs, pairs]`
    pub(super) fn rotate(&mut self, case: &SlotCase, inv_freqs: &[f32]) {
        let (seqs, pairs) = (&case.spec.seqs, self.pairs());
        let seen_from = |back: &dyn Fn(&SlotRule) -> i32| {
            let [mut cos, mut sin] =
                [vec![0.0; case.tokens() * pairs], vec![0.0; case.tokens() * pairs]];
            let rows = case.row_positions().into_iter().zip(case.row_seqs());
            let out = cos.chunks_exact_mut(pairs).zip(sin.chunks_exact_mut(pairs));
            for ((position, seq), (cos, sin)) in rows.zip(out) {
                let seq = *seq as usize;
                let inv_freq = &inv_freqs[seq * pairs..][..pairs];
                angles(position - back(&seqs[seq].0), inv_freq, 1.0, cos, sin);
            }
            [cos, sin]
        };
        self.angles = seen_from(&|_| 0);
        let rerotates = seqs.iter().any(|(rule, _)| 0 < rule.rerotated);
        self.rerotated = rerotates.then(|| seen_from(&|rule| rule.rerotated));
    }

    /// Pairs of numbers that are rotated.
    pub(super) fn pairs(&self) -> usize {
        self.inv_freq.len()
    }

    /// The same for some of `tokens` live rows.
    pub(super) fn rows(&self, rows: Range<usize>, tokens: usize) -> Layer {
        let of_rows = |numbers: &Vec<f32>| {
            let width = numbers.len() / tokens;
            numbers[rows.start * width..rows.end * width].to_vec()
        };
        Layer {
            qkv: of_rows(&self.qkv),
            angles: self.angles.each_ref().map(of_rows),
            rerotated: self.rerotated.as_ref().map(|rerotated| rerotated.each_ref().map(of_rows)),
            ..self.clone()
        }
    }

    /// What attention writes, and the pages' bytes.
    pub(super) fn attend(&self, ops: &Ops, case: &SlotCase) -> (Vec<f32>, Vec<u8>) {
        let (device, act, tokens) = (ops.device(), ops.activation(), case.tokens());
        let layout = case.spec.layout;
        let (columns, pairs) = (self.qkv.len() / tokens, self.pairs());
        let mut qkv = Placed::numbers(&device, act, &self.qkv, [tokens, columns]);
        let place = |angles: &[Vec<f32>; 2]| {
            [0, 1].map(|i| Placed::of(&device, &angles[i], [tokens, pairs]))
        };
        let (angles, rerotated) = (place(&self.angles), self.rerotated.as_ref().map(place));
        let inv_freq = Placed::of(&device, &self.inv_freq, [pairs]);
        let norms = PlacedNorms::new(ops, self.norms.as_ref());
        let wanted = ops.attend_scratch(&KvLayout::Slots(layout), self.heads);
        let mut scratch = Placed::poisoned(&device, wanted.dtype, [tokens, wanted.columns]);
        let mut out = Placed::poisoned(&device, act, [tokens, self.heads * layout.value_dim]);
        let seqs = case.spec.seqs.len();
        let read_rope = self.read_rope.as_ref().map(|[inv_freqs, scales]| {
            let inv_freqs = Placed::of(&device, inv_freqs, [seqs, pairs]);
            (inv_freqs, Placed::of(&device, scales, [seqs]))
        });
        let read_rope = read_rope.as_ref().map(|(inv_freqs, scales)| ReadRope {
            inv_freqs: inv_freqs.view(),
            scales: scales.view(),
        });
        let mut placed = case.place(&device);
        let [prompt, generated] = &self.row_kinds(case);
        let args = AttendArgs {
            qkv: qkv.view_mut(),
            heads: self.heads,
            row_kinds: RowKinds::Listed { prompt, generated },
            first_row: FIRST_ROW,
            norms: norms.args(),
            angles: RopeAngles { cos: angles[0].view(), sin: angles[1].view() },
            rerotated: rerotated.as_ref().map(|rerotated| RerotatedRope {
                angles: RopeAngles { cos: rerotated[0].view(), sin: rerotated[1].view() },
                inv_freq: inv_freq.view(),
            }),
            rope_style: self.style,
            layer: self.layer,
            scale: self.scale,
            window: self.window,
            scratch: scratch.view_mut(),
            out: out.view_mut(),
        };
        ops.attend(args, &mut GroupKv::Slots(placed.kv_with(read_rope)));
        (out.to_numbers(), placed.pages())
    }

    /// Of what attention writes.
    pub(super) fn tolerance(&self, ops: &Ops) -> f64 {
        match ops.activation() {
            DType::F32 if self.prompt_tokens == 0 || !has_matrix_units(ops) => TOLERANCE,
            _ => TOLERANCE_BF16,
        }
    }

    /// Rows of prompts, and generated ones, in a step whose other rows come before.
    fn row_kinds(&self, case: &SlotCase) -> [Vec<u32>; 2] {
        let (mut prompt, mut generated) = (vec![], (0..FIRST_ROW as u32).collect::<Vec<_>>());
        for (rule, live) in &case.spec.seqs {
            // One that is no sequence has rows of neither kind.
            let Ok(past) = usize::try_from(rule.past) else { continue };
            for position in past..past + live {
                let row = (prompt.len() + generated.len()) as u32;
                let is_prompt = position < self.prompt_tokens;
                if is_prompt { &mut prompt } else { &mut generated }.push(row);
            }
        }
        [prompt, generated]
    }

    pub(super) fn name(&self, case: &SlotCase) -> String {
        let SlotSpec { layout, seqs, scorers } = &case.spec;
        let seqs: Vec<String> = seqs
            .iter()
            .map(|(rule, live)| format!("{:?} {} + {live} in {}", rule.kind, rule.past, rule.slots))
            .collect();
        format!(
            "{}+{} {}/{} heads of {}, {} pairs, pages of {}, {:?}, window {:?}, rerotated {}, \
             norms {}, rerotated when read {}, prompts of {}, {seqs:?}, own scores {scorers:?}",
            name(layout.keys),
            name(layout.values),
            self.heads,
            layout.kv_heads,
            layout.key_dim,
            self.pairs(),
            layout.page_slots,
            self.style,
            self.window,
            self.rerotated.is_some(),
            self.norms.is_some(),
            self.read_rope.is_some(),
            self.prompt_tokens,
        )
    }
}
