//! How well a model ranks the candidates of users that it was not trained on.

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use terrace_datasets::read::Sample;
use terrace_engine::rank::RankRequest;

use super::eval_data::EvalData;
use super::eval_model::EvalModel;
use super::eval_report::EvalReport;
use super::eval_samples::EvalSamples;
use super::request_batches::RequestBatches;
use super::sample_request;
use super::task_scores::TaskScores;
use super::token_counts::TokenCounts;
use crate::progress;

pub fn evaluate(
    model: &EvalModel,
    data: &EvalData,
    batches: &mut RequestBatches,
    batch_most: usize,
) -> Result<EvalReport> {
    if data.rule.max_candidates == 0 {
        bail!("DatasetArgs.max_num_candidates is 0; ranking is evaluated with 1 or more");
    }
    let mut reader = EvalSamples::open(data, model.users_most())?;
    let bar = progress::counted("evaluating", "users", reader.users);
    let mut eval = Counted::new(model.files.config.num_tasks, bar);
    loop {
        let samples = reader.next_batch(batch_most)?;
        if samples.is_empty() {
            break;
        }
        eval.ask(batches, samples)?;
    }
    eval.bar.finish_and_clear();
    let report = EvalReport {
        users: reader.users,
        samples: eval.scores.samples(),
        unknown_ids: eval.unknown_ids,
        tokens: eval.tokens,
        metrics: eval.scores.metrics(),
    };
    report.note();
    Ok(report)
}

/// What has come of the users so far.
struct Counted {
    scores: TaskScores,
    tokens: TokenCounts,
    unknown_ids: usize,
    bar: ProgressBar,
}

impl Counted {
    fn new(tasks: usize, bar: ProgressBar) -> Self {
        let scores = TaskScores::new(tasks);
        Counted { scores, tokens: TokenCounts::default(), unknown_ids: 0, bar }
    }

    /// With the cache, histories are there before candidates are scored after them.
    fn ask(&mut self, batches: &mut RequestBatches, samples: Vec<Sample>) -> Result<()> {
        let (requests, labels): (Vec<_>, Vec<_>) = samples.into_iter().map(request).unzip();
        if batches.is_cached() {
            let history =
                |request: &RankRequest| RankRequest { candidates: Vec::new(), ..request.clone() };
            batches.rank(requests.iter().map(history).collect())?;
        }
        for (ranked, labels) in batches.rank(requests)?.iter().zip(labels) {
            self.scores.push(&ranked.output, &labels);
            self.tokens.add(&ranked.output);
            self.unknown_ids += ranked.output.unknown_ids;
            self.bar.inc(1);
        }
        Ok(())
    }
}

/// A sample's request, and what was done with the candidates.
fn request(mut sample: Sample) -> (RankRequest, Vec<i64>) {
    let labels = std::mem::take(&mut sample.labels);
    (sample_request::request(sample), labels)
}
