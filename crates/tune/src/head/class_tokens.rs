//! `seq_classification_on_logits`: which of a few tokens comes next.

use super::cross_entropy::{check_class, class_of, cross_entropy};
use super::head_model::{HeadBatch, HeadChunk, HeadModel};

/// Each class has a token; a sequence's last logits count for these tokens alone.
pub struct SequenceClassificationOnLogits {
    tokens: Vec<usize>,
}

impl SequenceClassificationOnLogits {
    /// `class_tokens`: of each class, known to the model.
    pub fn new(class_tokens: &[u32]) -> Self {
        let tokens = class_tokens.iter().map(|token| *token as usize).collect();
        SequenceClassificationOnLogits { tokens }
    }
}

impl HeadModel for SequenceClassificationOnLogits {
    fn needs_logits(&self) -> bool {
        true
    }

    fn needs_prompt(&self) -> bool {
        false
    }

    fn num_target_entries(&self, _targets: &[i32]) -> Option<usize> {
        None
    }

    fn check_targets(&self, targets: &[i32]) -> Result<(), String> {
        check_class(targets, self.tokens.len())
    }

    fn batch(&self, seqs: usize) -> Box<dyn HeadBatch + '_> {
        Box::new(ClassTokens { tokens: &self.tokens, shares: Vec::new(), seqs })
    }
}

struct ClassTokens<'a> {
    tokens: &'a [usize],
    /// Of each sequence.
    shares: Vec<Vec<f64>>,
    seqs: usize,
}

impl HeadBatch for ClassTokens<'_> {
    fn forward(&mut self, chunk: &HeadChunk<'_>) -> Vec<f64> {
        let Some(targets) = chunk.targets else { return vec![0.0; self.seqs] };
        let of_seq = |(logits, target): (&[f32], &i32)| {
            let logits: Vec<f64> =
                self.tokens.iter().map(|token| f64::from(logits[*token])).collect();
            cross_entropy(&logits, class_of(*target))
        };
        let (losses, shares) = chunk.last_outputs().zip(targets).map(of_seq).unzip();
        self.shares = shares;
        losses
    }

    fn backward(
        &mut self,
        chunk: &HeadChunk<'_>,
        d_losses: &[f64],
        d_outputs: &mut [f32],
        _d_parameters: &mut [&mut [f32]],
    ) {
        let Some(targets) = chunk.targets else { return };
        let d_seqs = d_outputs.chunks_exact_mut(chunk.tokens * chunk.width);
        let seqs = d_seqs.zip(targets).zip(&self.shares).zip(d_losses);
        for (((d_outputs, target), shares), d_loss) in seqs {
            let last = d_outputs.len() - chunk.width;
            for (class, (token, share)) in self.tokens.iter().zip(shares).enumerate() {
                let is_target = class == class_of(*target);
                let wanted = if is_target { 1.0 } else { 0.0 };
                // Two classes may have the same token.
                d_outputs[last + token] += (d_loss * (share - wanted)) as f32;
            }
        }
    }
}
