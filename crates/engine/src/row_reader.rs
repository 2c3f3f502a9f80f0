//! From rows of logits to tokens, on the worker threads between two steps' arithmetic.
//!
//! Rows are independent: which thread reads a row, and beside which others, changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock};

use terrace_device::{View, WorkerPool};

use crate::batch::{RowKind, RowUse};
use crate::event::TokenLogprobs;
use crate::executor::{Sampled, SampledToken, StepOutput};
use crate::plan::StepPlan;
use crate::sampler::{RowContext, Sampler};
use crate::sequence::{Sequence, Sequences};

pub(crate) struct RowReader {
    /// One for each worker thread.
    desks: Vec<Mutex<Desk>>,
}

/// What a worker needs to choose a token.
#[derive(Default)]
struct Desk {
    sampler: Sampler,
    /// A copy of the row, which choosing uses up.
    row: Vec<f32>,
}

/// What one row gave.
enum Reading {
    Prompt(TokenLogprobs),
    /// One token for each of the sequence's answers.
    Tokens(Vec<SampledToken>),
}

/// The rows of a step and whose they are.
#[derive(Clone, Copy)]
pub(crate) struct RowBatch<'a> {
    pub plan: &'a StepPlan,
    pub seqs: &'a Sequences,
    pub uses: &'a [RowUse],
    /// f32 `[uses, vocab]`
    pub logits: View<'a>,
}

impl RowReader {
    pub fn new(threads: usize) -> Self {
        RowReader { desks: (0..threads).map(|_| Mutex::default()).collect() }
    }

    /// Reads all rows and adds what they gave; rows of one chunk come one after the other.
    pub fn read(&self, workers: &WorkerPool, rows: RowBatch<'_>, output: &mut StepOutput) {
        let readings: Vec<OnceLock<_>> = rows.uses.iter().map(|_| OnceLock::new()).collect();
        workers.run(rows.uses.len(), &|worker, row| {
            let mut desk = self.desks[worker].lock().expect("panics are caught inside");
            let reading = desk.read(rows.seq(row), rows.uses[row].kind, rows.logits.row(row));
            let is_first = readings[row].set(reading).is_ok();
            assert!(is_first, "each row is read once");
        });
        for (row, reading) in readings.into_iter().enumerate() {
            let reading = reading.into_inner().expect("every row was read");
            add(rows.seq(row), reading, output);
        }
    }
}

impl<'a> RowBatch<'a> {
    fn seq(&self, row: usize) -> &'a Sequence {
        &self.seqs[self.plan.chunks[self.uses[row].chunk].seq]
    }
}

impl Desk {
    fn read(&mut self, seq: &Sequence, kind: RowKind, logits: &[f32]) -> Result<Reading, String> {
        let params = &seq.request().sampling;
        if let RowKind::Prompt { next } = kind {
            let top = params.prompt_logprobs.unwrap_or(0);
            let logprobs = self.sampler.prompt_logprobs(logits, seq.tokens()[next], top);
            return logprobs.map(Reading::Prompt).map_err(|error| error.to_string());
        }
        let token = |choice| {
            let context = RowContext {
                params,
                prompt: &seq.request().prompt,
                output: seq.output(),
                choice,
                position: seq.tokens().len() as u64,
            };
            self.choose(logits, &context)
        };
        seq.choices().map(token).collect::<Result<_, _>>().map(Reading::Tokens)
    }

    /// A user's own processor may panic; that ends its request, not the engine.
    fn choose(&mut self, logits: &[f32], context: &RowContext<'_>) -> Result<SampledToken, String> {
        self.row.clear();
        self.row.extend_from_slice(logits);
        let Desk { sampler, row } = self;
        match catch_unwind(AssertUnwindSafe(|| sampler.sample(row, context))) {
            Ok(token) => token.map_err(|error| error.to_string()),
            Err(_) => {
                *sampler = Sampler::default();
                Err("a logits processor has panicked".into())
            }
        }
    }
}

fn add(seq: &Sequence, reading: Result<Reading, String>, output: &mut StepOutput) {
    if output.sampled.last().is_none_or(|last| last.seq != seq.id()) {
        output.sampled.push(Sampled {
            seq: seq.id(),
            tokens: Ok(Vec::new()),
            prompt_logprobs: seq.wants_prompt_logprobs().then(Vec::new),
        });
    }
    let sampled = output.sampled.last_mut().expect("one was just pushed");
    match reading {
        Ok(Reading::Prompt(logprobs)) => {
            sampled.prompt_logprobs.get_or_insert_default().push(logprobs);
        }
        Ok(Reading::Tokens(tokens)) if sampled.tokens.is_ok() => sampled.tokens = Ok(tokens),
        Ok(Reading::Tokens(_)) => {}
        Err(why) => sampled.tokens = Err(why),
    }
}
