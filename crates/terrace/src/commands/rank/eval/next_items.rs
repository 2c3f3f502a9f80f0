//! How well a model finds each next item of users that it was not trained on.

use anyhow::Result;
use terrace_datasets::read::Sample;
use terrace_engine::rank::{RetrieveRequest, RetrievedItem};

use super::eval_data::EvalData;
use super::eval_model::EvalModel;
use super::eval_report::EvalReport;
use super::eval_samples::EvalSamples;
use super::metric_list::MetricList;
use super::rank_metric::{HitRule, NamedMetric, push_metrics};
use super::request_batches::RequestBatches;
use super::sample_request;
use super::token_counts::TokenCounts;
use crate::progress;

pub struct NextItems<'a> {
    pub model: &'a EvalModel,
    pub data: &'a EvalData,
    /// How many items are asked for.
    pub items: usize,
}

/// What has come of the users so far.
#[derive(Default)]
struct Counted {
    ranks: Vec<usize>,
    tokens: TokenCounts,
    unknown_ids: usize,
}

impl NextItems<'_> {
    pub fn run(
        &self,
        batches: &mut RequestBatches,
        batch_most: usize,
        metrics: &[NamedMetric],
        hits: HitRule,
    ) -> Result<EvalReport> {
        let mut reader = EvalSamples::open(self.data, self.model.users_most())?;
        let bar = progress::counted("evaluating", "users", reader.users);
        let mut counted = Counted::default();
        loop {
            let samples = reader.next_batch(batch_most)?;
            if samples.is_empty() {
                break;
            }
            self.ask(batches, &samples, &mut counted)?;
            bar.inc(samples.len() as u64);
        }
        bar.finish_and_clear();
        let mut list = MetricList::default();
        push_metrics(&mut list, "", metrics, &counted.ranks, hits);
        let report = EvalReport {
            users: reader.users,
            samples: counted.ranks.len(),
            unknown_ids: counted.unknown_ids,
            tokens: counted.tokens,
            metrics: list,
        };
        report.note();
        Ok(report)
    }

    /// Item by item, of all users at once: what is computed for one is cached for the next.
    fn ask(
        &self,
        batches: &mut RequestBatches,
        samples: &[Sample],
        counted: &mut Counted,
    ) -> Result<()> {
        let longest = samples.iter().map(|sample| sample.items.len()).max().unwrap_or(0);
        for position in 1..longest {
            let longer = samples.iter().filter(|sample| position < sample.items.len());
            let (requests, wanted): (Vec<_>, Vec<_>) = longer
                .map(|sample| (self.request(sample, position), sample.items[position]))
                .unzip();
            for (found, wanted) in batches.retrieve(requests)?.iter().zip(wanted) {
                let output = &found.output.output;
                counted.ranks.push(self.rank(&found.output.items, wanted));
                counted.tokens.add(output);
                counted.unknown_ids += output.unknown_ids;
            }
        }
        Ok(())
    }

    /// With what the user had before a position.
    fn request(&self, sample: &Sample, position: usize) -> RetrieveRequest {
        let actions = &sample.actions[..position.min(sample.actions.len())];
        RetrieveRequest {
            history: sample_request::request(Sample {
                user: sample.user,
                context: sample.context.clone(),
                items: sample.items[..position].to_vec(),
                actions: actions.to_vec(),
                ..Sample::default()
            }),
            count: self.items,
            blocked: Vec::new(),
            keeps_seen: true,
            times: Vec::new(),
            time: None,
        }
    }

    /// One more than are better; behind all that were asked for where it is none of them.
    fn rank(&self, found: &[RetrievedItem], wanted: i64) -> usize {
        /// Sums in another order differ by less, as in the trainer.
        const MARGIN: f32 = 1e-6;
        match found.iter().find(|item| item.item == wanted) {
            Some(own) => 1 + found.iter().filter(|it| own.score + MARGIN < it.score).count(),
            None => self.items + 1,
        }
    }
}
