//! How well a sequential model finds each user's last item: among drawn ones, and among all that
//! the user has not had.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, bail};
use terrace_datasets::read::{Sample, SequenceTable};
use terrace_engine::rank::{RetrieveRequest, RetrievedItem};
use terrace_model::hstu::recsys_args::SequentialArgs;

use super::eval_data::EvalData;
use super::eval_model::EvalModel;
use super::eval_report::EvalReport;
use super::metric_list::MetricList;
use super::negatives::NegativeItems;
use super::rank_metric::{HitRule, NamedMetric, push_metrics};
use super::request_batches::RequestBatches;
use super::sample_request;
use super::token_counts::TokenCounts;
use crate::progress;

pub struct LeaveOneOut<'a> {
    pub model: &'a EvalModel,
    pub data: &'a EvalData,
    pub sequential: SequentialArgs,
}

struct History {
    user: i64,
    items: Vec<i64>,
    /// Empty where the data have none.
    times: Vec<i64>,
}

/// A user, the item that was left out, and those that it is ranked among.
struct HeldOut<'a> {
    history: &'a History,
    wanted: i64,
    negatives: Vec<i64>,
}

/// Of the trainer unless its gin file says otherwise.
const SEED: i64 = 1234;
/// A user's last item is the test, the one before it the validation.
const HELD_OUT_MOST: usize = 2;
/// What tells the draws of the test from those of the validation.
const TEST: u64 = 1;

impl LeaveOneOut<'_> {
    pub fn run(
        &self,
        batches: &mut RequestBatches,
        batch_most: usize,
        metrics: &[NamedMetric],
        hits: HitRule,
    ) -> Result<EvalReport> {
        let histories = self.histories()?;
        let held_out = self.held_out(&histories)?;
        let bar = progress::counted("evaluating", "users", held_out.len());
        let (mut ranks, mut ranks_of_all) = (Vec::new(), Vec::new());
        let (mut tokens, mut unknown_ids) = (TokenCounts::default(), 0);
        for part in held_out.chunks(batch_most) {
            let requests = part.iter().map(|held| self.request(held)).collect();
            for (found, held) in batches.retrieve(requests)?.iter().zip(part) {
                let [of_drawn, of_all] = self.ranks(held, &found.output.items);
                ranks.push(of_drawn);
                ranks_of_all.push(of_all);
                tokens.add(&found.output.output);
                unknown_ids += found.output.output.unknown_ids;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let mut list = MetricList::default();
        push_metrics(&mut list, "", metrics, &ranks, hits);
        push_metrics(&mut list, "all.", metrics, &ranks_of_all, hits);
        let (users, samples) = (held_out.len(), ranks.len());
        let report = EvalReport { users, samples, unknown_ids, tokens, metrics: list };
        report.note();
        Ok(report)
    }

    /// Of all users: how frequent items are depends on every one.
    fn histories(&self) -> Result<Vec<History>> {
        let path = self.data.sequences()?;
        let mut table = SequenceTable::open(path, &self.data.columns)?;
        let mut histories = Vec::new();
        while let Some(sequence) = table.next_sequence()? {
            if let Some(item) = sequence.items.iter().find(|item| **item < 1) {
                bail!(
                    "{}: user {} has the item {item}; ids are from 1 on, 0 is padding",
                    path.display(),
                    sequence.user
                );
            }
            let (user, items, times) = (sequence.user, sequence.items, sequence.times);
            histories.push(History { user, items, times });
        }
        Ok(histories)
    }

    fn held_out<'a>(&self, histories: &'a [History]) -> Result<Vec<HeldOut<'a>>> {
        let seed = self.model.args.trainer.as_ref().map_or(SEED, |trainer| trainer.seed);
        let Ok(seed) = u64::try_from(seed) else {
            bail!("TrainerArgs.seed is {seed}; random numbers are drawn with one from 0 on");
        };
        let items = histories.iter().flat_map(|history| &history.items);
        let mut drawn = NegativeItems::new(items, self.sequential, [seed, TEST]);
        let longer = histories.iter().filter(|history| HELD_OUT_MOST < history.items.len());
        let users: Vec<&History> = longer.collect();
        if users.is_empty() {
            bail!("nobody to evaluate: no user has more than {HELD_OUT_MOST} items");
        }
        drawn.check(users.iter().map(|history| history.items.as_slice()))?;
        let held = users.into_iter().map(|history| HeldOut {
            history,
            wanted: *history.items.last().expect("there are more than two"),
            negatives: drawn.draw(&history.items),
        });
        Ok(held.collect())
    }

    /// With what the user had before the last item, as much of it as the model takes.
    fn request(&self, held: &HeldOut<'_>) -> RetrieveRequest {
        let History { user, items, times } = held.history;
        let given = self.given(items);
        let times = match times.is_empty() {
            true => vec![0; given.len()],
            false => times[..items.len() - 1][items.len() - 1 - given.len()..].to_vec(),
        };
        RetrieveRequest {
            history: sample_request::request(Sample {
                user: *user,
                items: given.to_vec(),
                ..Sample::default()
            }),
            count: self.model.files.config.max_candidates,
            blocked: Vec::new(),
            keeps_seen: true,
            times,
            time: None,
        }
    }

    fn given<'a>(&self, items: &'a [i64]) -> &'a [i64] {
        let before = &items[..items.len() - 1];
        let most = self.data.rule.max_history.min(self.model.files.config.max_history_tokens);
        &before[before.len().saturating_sub(most)..]
    }

    /// Among drawn items, and among all that are not given; of equal scores the others come first.
    fn ranks(&self, held: &HeldOut<'_>, found: &[RetrievedItem]) -> [usize; 2] {
        let scores: HashMap<i64, f32> = found.iter().map(|it| (it.item, it.score)).collect();
        let Some(own) = scores.get(&held.wanted) else {
            return [held.negatives.len() + 1, found.len() + 1];
        };
        let is_better = |item: &i64| scores.get(item).is_some_and(|score| own <= score);
        let given: HashSet<i64> = self.given(&held.history.items).iter().copied().collect();
        let others = found.iter().filter(|it| it.item != held.wanted && !given.contains(&it.item));
        [
            1 + held.negatives.iter().filter(|item| is_better(item)).count(),
            1 + others.filter(|it| *own <= it.score).count(),
        ]
    }
}
