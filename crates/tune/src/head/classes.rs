//! `seq_classification`: classes from the last layer's outputs, by weights of its own.

use terrace_kernels::random::SplitMix;

use super::cross_entropy::{check_class, class_of, cross_entropy};
use super::head_model::{HeadBatch, HeadChunk, HeadModel};
use crate::model::ParameterInfo;

/// A linear map from a sequence's pooled output to its classes' logits.
pub struct SequenceClassification {
    hidden: usize,
    pooling: Pooling,
    /// `[classes, hidden]`
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Which outputs of a sequence stand for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    Last,
    Mean,
}

impl Pooling {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "last" => Some(Pooling::Last),
            "mean" => Some(Pooling::Mean),
            _ => None,
        }
    }
}

impl SequenceClassification {
    /// Weights are drawn as those of PyTorch's linear maps, from ±1 / sqrt(hidden).
    pub fn new(hidden: usize, classes: usize, pooling: Pooling, seed: u64) -> Self {
        let bound = 1.0 / (hidden as f32).sqrt();
        let mut random = SplitMix::new(seed);
        let mut drawn =
            |count| random.numbers(count).into_iter().map(|x| x * bound).collect::<Vec<f32>>();
        let (weight, bias) = (drawn(classes * hidden), drawn(classes));
        SequenceClassification { hidden, pooling, weight, bias }
    }

    fn logits(&self, pooled: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks_exact(self.hidden).zip(&self.bias);
        let logit = |(row, bias): (&[f32], &f32)| {
            let sum: f64 = row.iter().zip(pooled).map(|(w, x)| f64::from(*w) * x).sum();
            sum + f64::from(*bias)
        };
        rows.map(logit).collect()
    }
}

impl HeadModel for SequenceClassification {
    fn needs_logits(&self) -> bool {
        false
    }

    fn needs_prompt(&self) -> bool {
        self.pooling == Pooling::Mean
    }

    fn num_target_entries(&self, _targets: &[i32]) -> Option<usize> {
        None
    }

    fn check_targets(&self, targets: &[i32]) -> Result<(), String> {
        check_class(targets, self.bias.len())
    }

    fn parameters(&self) -> Vec<ParameterInfo> {
        let classes = self.bias.len();
        vec![
            ParameterInfo { name: "weight".into(), shape: vec![classes, self.hidden] },
            ParameterInfo { name: "bias".into(), shape: vec![classes] },
        ]
    }

    fn change(&mut self, f: &mut dyn FnMut(usize, &mut [f32])) {
        f(0, &mut self.weight);
        f(1, &mut self.bias);
    }

    fn batch(&self, seqs: usize) -> Box<dyn HeadBatch + '_> {
        let pooled = vec![vec![0.0; self.hidden]; seqs];
        Box::new(Classes { model: self, pooled, tokens: 0, d_pooled: Vec::new() })
    }
}

struct Classes<'a> {
    model: &'a SequenceClassification,
    /// Of each sequence: the last token's outputs, or the sum of all tokens'.
    pooled: Vec<Vec<f64>>,
    tokens: usize,
    d_pooled: Vec<Vec<f64>>,
}

impl Classes<'_> {
    /// Tokens whose outputs a pooled number is the mean of.
    fn count(&self) -> f64 {
        match self.model.pooling {
            Pooling::Last => 1.0,
            Pooling::Mean => self.tokens as f64,
        }
    }

    fn means(&self) -> impl Iterator<Item = Vec<f64>> {
        let count = self.count();
        self.pooled.iter().map(move |sums| sums.iter().map(|sum| sum / count).collect())
    }

    /// The gradients of pooled outputs; adds to those of weights and biases.
    fn d_pooled(
        &self,
        targets: &[i32],
        d_losses: &[f64],
        d_parameters: &mut [&mut [f32]],
    ) -> Vec<Vec<f64>> {
        let SequenceClassification { hidden, weight, .. } = self.model;
        let [d_weight, d_bias] = d_parameters else { unreachable!("a weight and a bias") };
        let mut all = Vec::new();
        for ((pooled, target), d_loss) in self.means().zip(targets).zip(d_losses) {
            let class = class_of(*target);
            let (_, shares) = cross_entropy(&self.model.logits(&pooled), class);
            let mut d_pooled = vec![0.0; *hidden];
            for (i, share) in shares.iter().enumerate() {
                let d_logit = d_loss * (share - if i == class { 1.0 } else { 0.0 });
                d_bias[i] += d_logit as f32;
                let row = i * hidden..(i + 1) * hidden;
                let rows = d_weight[row.clone()].iter_mut().zip(&weight[row]);
                for ((d_weight, weight), (x, d_x)) in rows.zip(pooled.iter().zip(&mut d_pooled)) {
                    *d_weight += (d_logit * x) as f32;
                    *d_x += d_logit * f64::from(*weight);
                }
            }
            all.push(d_pooled);
        }
        all
    }
}

impl HeadBatch for Classes<'_> {
    fn forward(&mut self, chunk: &HeadChunk<'_>) -> Vec<f64> {
        let widened = |outputs: &[f32]| outputs.iter().map(|x| f64::from(*x)).collect();
        match self.model.pooling {
            Pooling::Last => self.pooled = chunk.last_outputs().map(widened).collect(),
            Pooling::Mean => {
                for (sums, outputs) in self.pooled.iter_mut().zip(chunk.seqs()) {
                    for row in outputs.chunks_exact(chunk.width) {
                        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
                    }
                }
            }
        }
        self.tokens += chunk.tokens;
        let Some(targets) = chunk.targets else { return vec![0.0; self.pooled.len()] };
        let rows = self.means().zip(targets);
        let loss = |(pooled, target): (Vec<f64>, &i32)| {
            cross_entropy(&self.model.logits(&pooled), class_of(*target)).0
        };
        rows.map(loss).collect()
    }

    fn backward(
        &mut self,
        chunk: &HeadChunk<'_>,
        d_losses: &[f64],
        d_outputs: &mut [f32],
        d_parameters: &mut [&mut [f32]],
    ) {
        // The last chunk is the first that is walked back.
        if let Some(targets) = chunk.targets {
            self.d_pooled = self.d_pooled(targets, d_losses, d_parameters);
        }
        let count = self.count();
        let seqs = d_outputs.chunks_exact_mut(chunk.tokens * chunk.width);
        for (d_outputs, d_pooled) in seqs.zip(&self.d_pooled) {
            let first = match (self.model.pooling, chunk.targets) {
                (Pooling::Mean, _) => 0,
                (Pooling::Last, Some(_)) => chunk.tokens - 1,
                (Pooling::Last, None) => chunk.tokens,
            };
            for row in d_outputs.chunks_exact_mut(chunk.width).skip(first) {
                row.iter_mut().zip(d_pooled).for_each(|(d_x, d)| *d_x = (d / count) as f32);
            }
        }
    }
}
