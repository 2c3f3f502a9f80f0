//! Who samples a row's token: the device, or the host from a copy of its logits.

use std::ops::Range;
use std::sync::Arc;

use terrace_kernels::sampling::SampleRow;

use crate::executors::batch::{RowPurpose, RowUse};
use crate::executors::row_reader::Row;
use crate::generate::request::Request;
use crate::generate::sampler::RowContext;
use crate::generate::sampling_params::SamplingParams;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::{Sequence, Sequences};
use crate::generate::step_plan::{Chunk, StepPlan};
use crate::guidance::GuideState;
use terrace_cache::TokenId;

/// Whether the device has a kernel for all that these parameters ask.
pub(super) fn samples_on_device(params: &SamplingParams) -> bool {
    params.typical_p == 1.0
        && params.repetition_penalty == 1.0
        && params.presence_penalty == 0.0
        && params.frequency_penalty == 0.0
        && params.no_repeat_ngram_size == 0
        && params.bad_words.is_empty()
        && params.forced_eos.is_none()
        && params.logit_bias.is_empty()
        && params.min_new_tokens == 0
        && params.logprobs.is_none()
        && params.processors.is_empty()
        && params.strategy.is_none()
        && params.guide.is_none()
}

/// How the wanted rows of a step are read, in their order.
#[derive(Default)]
pub(super) struct RowSampling {
    /// What the device samples; a row of several choices has several.
    pub device: Vec<SampleRow>,
    /// Which of the wanted rows each of `device` is for.
    pub device_wanted: Vec<usize>,
    /// Whose they are: the sequence, and which of `device`.
    pub owners: Vec<(SeqId, Range<usize>)>,
    /// What the host reads: the row of logits it needs, and what of its sequence.
    pub host: Vec<HostRow>,
}

/// A row that the host reads when the step is over, with what it must know of its sequence.
pub(super) struct HostRow {
    /// Which of the wanted rows.
    pub wanted: usize,
    kind: RowPurpose,
    seq: SeqId,
    request: Arc<Request>,
    /// Shared by the rows of one chunk.
    tokens: Arc<[TokenId]>,
    choices: Range<usize>,
    wants_prompt_logprobs: bool,
    guide: Option<Arc<GuideState>>,
}

impl RowSampling {
    /// `scored_rows` of the wanted rows have their logits on the device at a time.
    pub fn new(plan: &StepPlan, seqs: &Sequences, uses: &[RowUse], scored_rows: usize) -> Self {
        let mut sampling = RowSampling::default();
        for (wanted, row) in uses.iter().enumerate() {
            let chunk = &plan.chunks[row.chunk];
            let seq = &seqs[chunk.seq];
            let on_device = row.kind == RowPurpose::Sample
                && seq.request().sampling().is_some_and(samples_on_device)
                && !seq.wants_prompt_logprobs();
            if on_device {
                sampling.add_device(wanted, wanted % scored_rows, chunk, seq);
            } else {
                let before = sampling.host.last().filter(|before| before.seq == seq.id());
                let tokens = match before {
                    Some(before) => Arc::clone(&before.tokens),
                    None => seq.tokens().into(),
                };
                sampling.host.push(HostRow::new(wanted, row.kind, seq, tokens));
            }
        }
        sampling
    }

    /// The rows as bytes for the device, filled up with empty ones to at least `padded`.
    pub fn bytes(&self, padded: usize) -> Vec<u8> {
        let empty = padded.saturating_sub(self.device.len());
        let rows = self.device.iter().copied().chain(std::iter::repeat_n(SampleRow::SKIP, empty));
        rows.flat_map(SampleRow::to_bytes).collect()
    }

    fn add_device(&mut self, wanted: usize, logits_row: usize, chunk: &Chunk, seq: &Sequence) {
        let request = seq.request();
        let params = request.sampling().expect("rows that sample are of requests that do");
        let first = self.device.len();
        self.device.extend(seq.choices().map(|choice| {
            let context = RowContext {
                params,
                prompt: &request.prompt,
                output: seq.output(),
                choice,
                // The token before may still be on the device, and not among the sequence's.
                position: chunk.end() as u64,
                allowed: None,
            };
            SampleRow::new(context.pick(), logits_row)
        }));
        self.device_wanted.resize(self.device.len(), wanted);
        self.owners.push((seq.id(), first..self.device.len()));
    }
}

impl HostRow {
    fn new(wanted: usize, kind: RowPurpose, seq: &Sequence, tokens: Arc<[TokenId]>) -> Self {
        HostRow {
            wanted,
            kind,
            seq: seq.id(),
            request: Arc::clone(seq.request()),
            tokens,
            choices: seq.choices(),
            wants_prompt_logprobs: seq.wants_prompt_logprobs(),
            guide: seq.guide().cloned(),
        }
    }

    pub fn row(&self) -> Row<'_> {
        Row {
            kind: self.kind,
            seq: self.seq,
            request: &self.request,
            tokens: &self.tokens,
            choices: self.choices.clone(),
            wants_prompt_logprobs: self.wants_prompt_logprobs,
            guide: self.guide.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_model::Tokenizer;

    use super::*;
    use crate::generate::logits_processor::LogitsContext;
    use crate::generate::sampling_strategy::SamplingStrategy;
    use crate::guidance::{Grammar, GrammarRule, Guide, GuideMaker};

    struct Never;

    impl SamplingStrategy for Never {
        fn sample(&self, _: &LogitsContext<'_>, _: &[f32]) -> Option<TokenId> {
            None
        }
    }

    fn any_guide() -> Arc<Guide> {
        let maker = GuideMaker::new(&Tokenizer::numbered(4), &[0], 4, None).expect("it has an end");
        let rule = GrammarRule::Regex("( [0-9])*".into());
        Arc::new(maker.guide(&Grammar { option: "rule", rule }).expect("a good grammar"))
    }

    #[test]
    fn the_device_samples_what_it_has_kernels_for() {
        let greedy = || SamplingParams::greedy(8);
        let drawn =
            SamplingParams { do_sample: true, top_p: 0.9, top_k: 5, min_p: 0.1, ..greedy() };
        assert!(samples_on_device(&greedy()) && samples_on_device(&drawn));
        let for_the_host = [
            SamplingParams { typical_p: 0.9, ..greedy() },
            SamplingParams { repetition_penalty: 1.1, ..greedy() },
            SamplingParams { presence_penalty: 0.1, ..greedy() },
            SamplingParams { frequency_penalty: 0.1, ..greedy() },
            SamplingParams { no_repeat_ngram_size: 2, ..greedy() },
            SamplingParams { bad_words: vec![vec![3, 1]], ..greedy() },
            SamplingParams { forced_eos: Some(3), ..greedy() },
            SamplingParams { logit_bias: vec![(3, 1.0)], ..greedy() },
            SamplingParams { min_new_tokens: 1, ..greedy() },
            SamplingParams { logprobs: Some(0), ..greedy() },
            SamplingParams { strategy: Some(Arc::new(Never)), ..greedy() },
            SamplingParams { guide: Some(any_guide()), ..greedy() },
        ];
        for params in for_the_host {
            assert!(!samples_on_device(&params), "{params:?}");
        }
    }
}
