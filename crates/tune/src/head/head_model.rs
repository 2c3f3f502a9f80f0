//! What turns a model's outputs into a loss; one's own implement it.

use std::ops::Range;

use crate::batch::Batch;
use crate::model::ParameterInfo;

/// What a model is trained for.
pub enum Head {
    /// `next_token_prediction`: cross entropy of each target over the whole vocabulary.
    NextToken,
    Model(Box<dyn HeadModel>),
}

impl Head {
    /// Positions of each sequence of a batch whose outputs the head is given.
    pub(crate) fn positions(&self, batch: &Batch<'_>) -> Range<usize> {
        let (tokens, targets) = (batch.tokens(), batch.target_tokens());
        let needs_prompt = match self {
            Head::NextToken => false,
            Head::Model(model) => model.needs_prompt(),
        };
        if needs_prompt { 0..tokens } else { tokens - targets..tokens }
    }

    /// Whether the model's own head is on the way from outputs to the loss.
    pub(crate) fn needs_logits(&self) -> bool {
        match self {
            Head::NextToken => true,
            Head::Model(model) => model.needs_logits(),
        }
    }
}

/// A loss over outputs or logits, with weights of its own where it has any.
///
/// What it has to remember of a batch is in its [`HeadBatch`], so that several batches can be under
/// way at once.
pub trait HeadModel: Send + Sync {
    /// Whether it is given logits over the vocabulary; else the last layer's outputs after the
    /// final norm, and the model's own head is not trained.
    fn needs_logits(&self) -> bool;

    /// Whether it is also given tokens before the first that has a target.
    fn needs_prompt(&self) -> bool {
        true
    }

    /// Targets of a sequence over which its loss is a sum, and by which it is divided; `None` where
    /// it is no such sum.
    fn num_target_entries(&self, targets: &[i32]) -> Option<usize>;

    /// What is wrong with the targets of a sequence.
    fn check_targets(&self, targets: &[i32]) -> Result<(), String> {
        let _ = targets;
        Ok(())
    }

    /// Its own arrays, vectors or matrices.
    fn parameters(&self) -> Vec<ParameterInfo> {
        Vec::new()
    }

    /// Calls `f` with the number of each of its arrays, and the array.
    fn change(&mut self, f: &mut dyn FnMut(usize, &mut [f32])) {
        let _ = f;
    }

    /// Begins a batch.
    fn batch(&self, seqs: usize) -> Box<dyn HeadBatch + '_>;
}

/// A batch on its way through a head model: all chunks forward, then the same backward.
pub trait HeadBatch {
    /// What each sequence's loss grows by.
    fn forward(&mut self, chunk: &HeadChunk<'_>) -> Vec<f64>;

    /// Writes the gradient of the chunk's outputs, and adds to those of the model's own arrays.
    ///
    /// d_losses: what each sequence's loss counts · d_outputs: as the chunk's outputs, zeros
    fn backward(
        &mut self,
        chunk: &HeadChunk<'_>,
        d_losses: &[f64],
        d_outputs: &mut [f32],
        d_parameters: &mut [&mut [f32]],
    );
}

/// Some tokens of each sequence.
#[derive(Clone, Copy, Debug)]
pub struct HeadChunk<'a> {
    /// `[seqs, tokens, width]`: as wide as the vocabulary, or as the model's hidden state.
    pub outputs: &'a [f32],
    pub tokens: usize,
    pub width: usize,
    /// `[seqs, targets]`, of the last of these tokens.
    pub targets: Option<&'a [i32]>,
    /// The first of these tokens' place in its sequence.
    pub input_pos: usize,
}

impl<'a> HeadChunk<'a> {
    /// Outputs of each sequence, `[tokens, width]`.
    pub fn seqs(&self) -> impl Iterator<Item = &'a [f32]> {
        self.outputs.chunks_exact(self.tokens * self.width)
    }

    /// Outputs of each sequence's last token.
    pub fn last_outputs(&self) -> impl Iterator<Item = &'a [f32]> {
        let width = self.width;
        self.seqs().map(move |outputs| &outputs[outputs.len() - width..])
    }
}
