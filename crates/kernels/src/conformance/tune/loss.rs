//! Cross entropy in blocks of the vocabulary against that of whole logits.

use terrace_device::DType;

use super::Both;
use super::products::trained;
use crate::conformance::placed::Placed;
use crate::conformance::{Report, SplitMix, numbers};
use crate::linear::backward::reference as products;
use crate::linear::lora::{LoraBranch, reference as branches};
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
    /// Of the head and its branch.
    weights: [Vec<f32>; 3],
    targets: Vec<i32>,
    factors: Vec<f32>,
}

impl Case {
    fn new(both: &Both<'_>, random: &mut SplitMix, [rows, hidden, vocab]: [usize; 3]) -> Self {
        let weights = [(vocab, hidden), (RANK, hidden), (vocab, RANK)].map(|(rows, columns)| {
            let size = 1.0 / (columns as f32).sqrt();
            let numbers = random.numbers(rows * columns).into_iter().map(|x| size * x);
            numbers::rounded(numbers.collect(), both.act)
        });
        // Some rows have no target.
        let targets = (0..rows).map(|_| random.below(vocab + 1) as i32 - 1).collect();
        let x = random.numbers(rows * hidden).into_iter().map(|x| 4.0 * x).collect();
        let x = numbers::rounded(x, both.act);
        Case { rows, hidden, vocab, x, weights, targets, factors: random.numbers(rows) }
    }

    fn run(&self, both: &Both<'_>, report: &mut Report, block: usize) {
        let Case { rows, hidden, vocab, .. } = *self;
        let [head, a, b] = [(0, vocab), (1, RANK), (2, vocab)]
            .map(|(i, rows)| trained(&both.ops, &self.weights[i], rows));
        let branch = LoraBranch { a: &a, b: &b, scale: SCALE };
        let poisoned = |dtype, columns| Placed::poisoned(&both.device, dtype, [rows, columns]);
        // Rows of logits with columns behind them.
        let width = block + 3;
        let (mut logits, mut found) = (poisoned(DType::F32, width), poisoned(DType::F32, 3));
        let [logits, _] = logits.view_mut().split_columns([block, width - block]);
        let (mut inner, mut d_inner) = (poisoned(both.act, RANK), poisoned(both.act, RANK));
        let mut losses = Placed::poisoned(&both.device, DType::F32, [rows]);
        let even =
            |number, shape: [usize; 2]| both.exact(&vec![number; shape[0] * shape[1]], shape);
        let (mut d_x, mut d_head) = (even(0.5, [rows, hidden]), even(0.25, [vocab, hidden]));
        let (mut d_a, mut d_b) = (even(0.0, [RANK, hidden]), even(0.0, [vocab, RANK]));
        let x = both.act(&self.x, [rows, hidden]);
        let targets = Placed::of(&both.device, &self.targets, [rows]);
        let factors = both.exact(&self.factors, [rows]);
        let lora = HeadLora {
            branch,
            inner: inner.view_mut(),
            d_inner: d_inner.view_mut(),
            d_matrices: Some([d_a.view_mut(), d_b.view_mut()]),
        };
        let done = both.ops.head_loss(HeadLossArgs {
            x: x.view(),
            head: &head,
            lora: Some(lora),
            targets: targets.view(),
            factors: factors.view(),
            logits,
            found: found.view_mut(),
            losses: losses.view_mut(),
            d_x: Some(d_x.view_mut()),
            d_head: Some(d_head.view_mut()),
        });
        done.expect("memory for small rows");
        let want = self.want();
        let case = format!("{rows} rows of {hidden}, {vocab} tokens, {block} at a time");
        let arrays = [losses, d_x, d_head, d_a, d_b].map(|array| array.to_numbers());
        let names = ["losses", "d_x", "d_head", "d_a", "d_b"];
        for ((got, want), name) in arrays.iter().zip(&want).zip(names) {
            // Nothing but cancelled sums is left where the vocabulary is one token.
            let (got, want) = (with_one(got), with_one(want));
            report.compare("head_loss", format!("{name}, {case}"), both.tolerance(), &got, &want);
        }
    }

    fn want(&self) -> [Vec<f32>; 5] {
        let Case { rows, hidden, vocab, .. } = *self;
        let [head, a, b] = &self.weights;
        let mut losses = Vec::new();
        let (mut d_x, mut d_head) = (vec![0.5; rows * hidden], vec![0.25; vocab * hidden]);
        let (mut d_a, mut d_b) = (vec![0.0; RANK * hidden], vec![0.0; vocab * RANK]);
        for (row, (x, d_x)) in
            self.x.chunks_exact(hidden).zip(d_x.chunks_exact_mut(hidden)).enumerate()
        {
            let dot = |weight: &[f32]| -> f32 { x.iter().zip(weight).map(|(x, w)| x * w).sum() };
            let mut logits: Vec<f32> = head.chunks_exact(hidden).map(dot).collect();
            let inner: Vec<f32> = a.chunks_exact(hidden).map(dot).collect();
            branches::add_product(&inner, b, SCALE, &mut logits);
            let target = usize::try_from(self.targets[row]).ok();
            let (loss, d) = reference::cross_entropy(&logits, target, self.factors[row]);
            losses.push(loss);
            products::weight_gradient(&d, x, hidden, &mut d_head);
            products::input_gradient(&d, head, d_x);
            let mut d_inner = vec![0.0; RANK];
            branches::inner_gradient(&d, b, SCALE, &mut d_inner);
            products::input_gradient(&d_inner, a, d_x);
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
