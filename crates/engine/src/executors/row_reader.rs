//! From rows of logits to tokens, on the worker threads between two steps' arithmetic.
//!
//! Rows are independent: which thread reads a row, and beside which others, changes nothing.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use terrace_device::{View, WorkerPool};

use crate::error::Error;
use crate::executors::batch::RowPurpose;
use crate::generate::executor::{NoToken, Sampled, SampledToken, StepOutput};
use crate::generate::request::Request;
use crate::generate::sampler::{RowContext, Sampler};
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::Sequence;
use crate::generate::token_event::TokenLogprobs;
use crate::guidance::GuideState;
use terrace_cache::TokenId;

pub(crate) struct RowReader {
    /// One for each worker thread.
    states: Vec<Mutex<ReaderState>>,
}

/// What a worker needs to sample a token.
#[derive(Default)]
struct ReaderState {
    sampler: Sampler,
    /// A copy of the row, which sampling uses up.
    row: Vec<f32>,
}

/// What one row gave.
enum Reading {
    Prompt(TokenLogprobs),
    /// One token for each of the sequence's choices.
    Tokens(Vec<SampledToken>),
    /// An embedding's, which comes from elsewhere.
    Nothing,
}

/// A row of logits: what it is for, and all of its sequence that matters to it.
#[derive(Clone)]
pub(crate) struct Row<'a> {
    pub kind: RowPurpose,
    pub seq: SeqId,
    pub request: &'a Request,
    /// The prompt and the output, as they were when the step began.
    pub tokens: &'a [TokenId],
    pub choices: Range<usize>,
    pub wants_prompt_logprobs: bool,
    pub guide: Option<&'a GuideState>,
}

impl<'a> Row<'a> {
    pub fn of(seq: &'a Sequence, kind: RowPurpose) -> Self {
        Row {
            kind,
            seq: seq.id(),
            request: seq.request(),
            tokens: seq.tokens(),
            choices: seq.choices(),
            wants_prompt_logprobs: seq.wants_prompt_logprobs(),
            guide: seq.guide().map(Arc::as_ref),
        }
    }

    /// The output so far.
    fn output(&self) -> &'a [TokenId] {
        &self.tokens[self.request.prompt.len()..]
    }
}

impl RowReader {
    pub fn new(threads: usize) -> Self {
        RowReader { states: (0..threads).map(|_| Mutex::default()).collect() }
    }

    /// Finds out which tokens may follow in the rows that have a grammar. Reading does it too; this
    /// is for while the device works.
    pub fn prepare(&self, workers: &WorkerPool, rows: &[Row<'_>]) {
        let sampled = rows.iter().filter(|row| row.kind == RowPurpose::Sample);
        let guided: Vec<_> = sampled.filter_map(|row| Some((row.guide?, row.output()))).collect();
        if guided.is_empty() {
            return;
        }
        workers.run(guided.len(), &|_, row| {
            let (guide, output) = guided[row];
            // Reading meets the same error, and reports it.
            let _ = guide.allowed_after(output);
        });
    }

    /// Reads all rows and adds what they gave; rows of one chunk come one after the other.
    ///
    /// logits: f32 `[rows, vocab]`
    pub fn read(
        &self,
        workers: &WorkerPool,
        rows: &[Row<'_>],
        logits: View<'_>,
        output: &mut StepOutput,
    ) {
        let readings: Vec<OnceLock<_>> = rows.iter().map(|_| OnceLock::new()).collect();
        workers.run(rows.len(), &|worker, row| {
            let mut state = self.states[worker].lock().expect("panics are caught inside");
            let reading = state.read(&rows[row], logits.row(row));
            let is_first = readings[row].set(reading).is_ok();
            assert!(is_first, "each row is read once");
        });
        for (row, reading) in readings.into_iter().enumerate() {
            let reading = reading.into_inner().expect("every row was read");
            add(&rows[row], reading, output);
        }
    }
}

impl ReaderState {
    fn read(&mut self, row: &Row<'_>, logits: &[f32]) -> Result<Reading, NoToken> {
        let Some(params) = row.request.sampling() else { return Ok(Reading::Nothing) };
        if let RowPurpose::Prompt { next } = row.kind {
            let top = params.prompt_logprobs.unwrap_or(0);
            let logprobs = self.sampler.prompt_logprobs(logits, row.tokens[next], top);
            return logprobs.map(Reading::Prompt).map_err(|error| error.to_string().into());
        }
        // Outputs that are not apart yet have no token, so they share what may come first.
        let allowed = row.guide.map(|guide| guide.allowed_after(row.output())).transpose()?;
        let token = |choice| {
            let context = RowContext {
                params,
                prompt: &row.request.prompt,
                output: row.output(),
                choice,
                position: row.tokens.len() as u64,
                allowed: allowed.as_deref(),
            };
            self.sample(logits, &context)
        };
        row.choices.clone().map(token).collect::<Result<_, _>>().map(Reading::Tokens)
    }

    /// A user's own processor or strategy may panic; that ends its request, not the engine.
    fn sample(
        &mut self,
        logits: &[f32],
        context: &RowContext<'_>,
    ) -> Result<SampledToken, NoToken> {
        self.row.clear();
        self.row.extend_from_slice(logits);
        let ReaderState { sampler, row } = self;
        match catch_unwind(AssertUnwindSafe(|| sampler.sample(row, context))) {
            Ok(Ok(token)) => Ok(token),
            Ok(Err(error @ Error::BadStrategy { .. })) => Err(error.to_string().into()),
            Ok(Err(_)) if logits.iter().any(|logit| logit.is_finite()) => Err(NoToken::Forbidden),
            Ok(Err(error)) => Err(error.to_string().into()),
            Err(_) => {
                *sampler = Sampler::default();
                Err("a logits processor or sampling strategy has panicked".to_owned().into())
            }
        }
    }
}

fn add(row: &Row<'_>, reading: Result<Reading, NoToken>, output: &mut StepOutput) {
    if output.sampled.last().is_none_or(|last| last.seq != row.seq) {
        output.sampled.push(Sampled {
            seq: row.seq,
            outputs: Vec::new(),
            prompt_logprobs: row.wants_prompt_logprobs.then(Vec::new),
        });
    }
    let sampled = output.sampled.last_mut().expect("one was just pushed");
    match reading {
        Ok(Reading::Prompt(logprobs)) => {
            sampled.prompt_logprobs.get_or_insert_default().push(logprobs);
        }
        Ok(Reading::Tokens(tokens)) => sampled.outputs.push(Ok(tokens)),
        Ok(Reading::Nothing) => {}
        Err(why) => sampled.outputs.push(Err(why)),
    }
}
