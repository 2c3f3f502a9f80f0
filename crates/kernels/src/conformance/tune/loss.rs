//! Cross entropy in blocks of the vocabulary against that of whole logits.

use terrace_device::{View, ViewMut};

use super::Both;
use super::products::matrix;
use crate::conformance::{Report, SplitMix};
use crate::linear::backward::reference as products;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::linear::Linear;
use crate::linear::lora::{LoraBranch, reference as branches};
use crate::linear::weight_format::WeightFormat;
use crate::loss::cross_entropy::{HeadLora, HeadLossArgs, reference};

const RANK: usize = 3;
const SCALE: f32 = 0.5;

pub(super) fn check(both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
    for vocab in [1, 7, 33, 100] {
        for block in [1, 8, 33, 128] {
            for rows in [1, 5, 40] {
                if !report.skips("head_loss") {
                    let hidden = 1 + random.below(40);
                    let case = Case::new(both, random, [rows, hidden, vocab]);
                    case.run(both, report, block.min(vocab));
                }
            }
        }
    }
}

struct Case {
    rows: usize,
    hidden: usize,
    vocab: usize,
    x: Vec<f32>,
    head: Linear,
    a: Linear,
    b: Linear,
    targets: Vec<i32>,
    factors: Vec<f32>,
}

impl Case {
    fn new(both: &Both<'_>, random: &mut SplitMix, [rows, hidden, vocab]: [usize; 3]) -> Self {
        let mut placed = |rows, columns| -> Linear {
            let bytes = random.weights(WeightFormat::F32, rows * columns);
            let weight = matrix(WeightFormat::F32, rows, &bytes);
            both.ops.place(BiasedWeight { weight, bias: None })
        };
        let (head, a, b) = (placed(vocab, hidden), placed(RANK, hidden), placed(vocab, RANK));
        // Some rows have no target.
        let targets = (0..rows).map(|_| random.below(vocab + 1) as i32 - 1).collect();
        let x = random.numbers(rows * hidden).into_iter().map(|x| 4.0 * x).collect();
        Case { rows, hidden, vocab, x, head, a, b, targets, factors: random.numbers(rows) }
    }

    fn run(&self, both: &Both<'_>, report: &mut Report, block: usize) {
        let Case { rows, hidden, vocab, .. } = *self;
        let branch = LoraBranch { a: &self.a, b: &self.b, scale: SCALE };
        let [mut logits, mut found] = [block, 3].map(|width| vec![f32::NAN; rows * width]);
        let [mut inner, mut d_inner] = [(); 2].map(|()| vec![f32::NAN; rows * RANK]);
        let (mut losses, mut d_x) = (vec![f32::NAN; rows], vec![0.5; rows * hidden]);
        let mut d_head = vec![0.25; vocab * hidden];
        let (mut d_a, mut d_b) = (vec![0.0; RANK * hidden], vec![0.0; vocab * RANK]);
        both.ops.head_loss(HeadLossArgs {
            x: View::of(&self.x, [rows, hidden]),
            head: &self.head,
            lora: Some(HeadLora {
                branch,
                inner: ViewMut::of(&mut inner, [rows, RANK]),
                d_inner: ViewMut::of(&mut d_inner, [rows, RANK]),
                d_matrices: Some([
                    ViewMut::of(&mut d_a, [RANK, hidden]),
                    ViewMut::of(&mut d_b, [vocab, RANK]),
                ]),
            }),
            targets: View::of(&self.targets, [rows]),
            factors: View::of(&self.factors, [rows]),
            logits: ViewMut::of(&mut logits, [rows, block]),
            found: ViewMut::of(&mut found, [rows, 3]),
            losses: ViewMut::of(&mut losses, [rows]),
            d_x: Some(ViewMut::of(&mut d_x, [rows, hidden])),
            d_head: Some(ViewMut::of(&mut d_head, [vocab, hidden])),
        });
        let want = self.want(both);
        let case = format!("{rows} rows of {hidden}, {vocab} tokens, {block} at a time");
        let arrays = [losses, d_x, d_head, d_a, d_b];
        let names = ["losses", "d_x", "d_head", "d_a", "d_b"];
        for ((got, want), name) in arrays.iter().zip(&want).zip(names) {
            // Nothing but cancelled sums is left where the vocabulary is one token.
            let (got, want) = (with_one(got), with_one(want));
            report.compare("head_loss", format!("{name}, {case}"), both.tolerance(), &got, &want);
        }
    }

    fn want(&self, both: &Both<'_>) -> [Vec<f32>; 5] {
        let Case { rows, hidden, vocab, .. } = *self;
        let numbers = |linear| both.ops.numbers(linear).expect("placed as f32").to_vec();
        let [head, a, b] = [&self.head, &self.a, &self.b].map(numbers);
        let mut losses = Vec::new();
        let (mut d_x, mut d_head) = (vec![0.5; rows * hidden], vec![0.25; vocab * hidden]);
        let (mut d_a, mut d_b) = (vec![0.0; RANK * hidden], vec![0.0; vocab * RANK]);
        for (row, (x, d_x)) in
            self.x.chunks_exact(hidden).zip(d_x.chunks_exact_mut(hidden)).enumerate()
        {
            let dot = |weight: &[f32]| -> f32 { x.iter().zip(weight).map(|(x, w)| x * w).sum() };
            let mut logits: Vec<f32> = head.chunks_exact(hidden).map(dot).collect();
            let inner: Vec<f32> = a.chunks_exact(hidden).map(dot).collect();
            branches::add_product(&inner, &b, SCALE, &mut logits);
            let target = usize::try_from(self.targets[row]).ok();
            let (loss, d) = reference::cross_entropy(&logits, target, self.factors[row]);
            losses.push(loss);
            products::weight_gradient(&d, x, hidden, &mut d_head);
            products::input_gradient(&d, &head, d_x);
            let mut d_inner = vec![0.0; RANK];
            branches::inner_gradient(&d, &b, SCALE, &mut d_inner);
            products::input_gradient(&d_inner, &a, d_x);
            products::weight_gradient(&d_inner, x, hidden, &mut d_a);
            let scaled: Vec<f32> = d.iter().map(|d| d * SCALE).collect();
            products::weight_gradient(&scaled, &inner, RANK, &mut d_b);
        }
        [losses, d_x, d_head, d_a, d_b]
    }
}

/// The numbers and a 1, so that differences are relative to at least that.
fn with_one(numbers: &[f32]) -> Vec<f32> {
    numbers.iter().copied().chain([1.0]).collect()
}
