//! `--mode simulate`: users of a data set as traffic, in the order of time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use terrace_datasets::read::{
    BatchTable, IntervalBatch, Sample, SequenceColumns, SequenceIndex, UserSequence,
};
use terrace_engine::rank::RankRequest;

use super::eval_data::EvalData;
use super::eval_model::EvalModel;
use super::interval_traffic;
use super::request_batches::RequestBatches;
use super::sample_request;
use super::simulation_report::SimulationReport;
use super::task_scores::TaskScores;
use super::token_counts::TokenCounts;
use crate::commands::percentiles::Percentiles;
use crate::progress;

pub fn simulate(
    model: &EvalModel,
    data: &EvalData,
    batches: &mut RequestBatches,
    batch_most: usize,
) -> Result<SimulationReport> {
    let [sequences, rows] = data.growing_sequences()?;
    let BatchTable { batches: rows, by_date } = BatchTable::read(&rows)?;
    if rows.is_empty() {
        bail!("{} has no row", data.growing_sequences()?[1].display());
    }
    let columns = SequenceColumns { by_date, ..data.columns.clone() };
    let mut sequences = Sequences {
        index: SequenceIndex::open(&sequences, &columns)?,
        read: HashMap::new(),
        numbers: 0,
        candidates_most: data.rule.max_candidates,
    };
    let mut traffic = Traffic::new(model.files.config.num_tasks);
    let bar = progress::counted("simulating", "requests", rows.len());
    let (began, mut date, mut dates) = (Instant::now(), None, 0);
    for batch in interval_traffic::batches(&rows, batch_most) {
        if date != Some(batch[0].date) {
            date = Some(batch[0].date);
            dates += 1;
            sequences.clear();
            batches.forget()?;
        }
        let asked = batch.iter().map(|row| sequences.request(row)).collect::<Result<Vec<_>>>()?;
        traffic.ask(batches, asked)?;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(SimulationReport {
        dates,
        batches: traffic.batches,
        requests: traffic.requests,
        samples: traffic.scores.samples(),
        unknown_ids: traffic.unknown_ids,
        seconds: began.elapsed().as_secs_f64(),
        tokens: traffic.tokens,
        latency_ms: Percentiles::of(&traffic.latencies),
        metrics: traffic.scores.metrics(),
    })
}

/// What has come of the requests so far.
struct Traffic {
    scores: TaskScores,
    tokens: TokenCounts,
    unknown_ids: usize,
    /// Of requests with candidates.
    latencies: Vec<Duration>,
    requests: usize,
    batches: usize,
}

impl Traffic {
    fn new(tasks: usize) -> Self {
        Traffic {
            scores: TaskScores::new(tasks),
            tokens: TokenCounts::default(),
            unknown_ids: 0,
            latencies: Vec::new(),
            requests: 0,
            batches: 0,
        }
    }

    fn ask(
        &mut self,
        batches: &mut RequestBatches,
        asked: Vec<(RankRequest, Vec<i64>)>,
    ) -> Result<()> {
        let (requests, labels): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        self.requests += requests.len();
        self.batches += 1;
        for (ranked, labels) in batches.rank(requests)?.iter().zip(labels) {
            self.scores.push(&ranked.output, &labels);
            self.tokens.add(&ranked.output);
            self.unknown_ids += ranked.output.unknown_ids;
            if !labels.is_empty() {
                self.latencies.push(ranked.latency);
            }
        }
        Ok(())
    }
}

/// The sequences of a date, each read once.
struct Sequences {
    index: SequenceIndex,
    read: HashMap<i64, UserSequence>,
    /// That are held.
    numbers: usize,
    candidates_most: usize,
}

/// Items that are held at most, 8 bytes and as many of an action each.
const HELD_MOST: usize = 32 << 20;

impl Sequences {
    /// The history until a time, and what came next.
    fn request(&mut self, row: &IntervalBatch) -> Result<(RankRequest, Vec<i64>)> {
        let most = self.candidates_most;
        let sequence = self.sequence(row)?;
        let Some(items) = sequence.items.get(..row.events) else {
            let (user, date, found) = (row.user, row.date, sequence.items.len());
            bail!(
                "user {user} has {found} events on {date}, and an interval that ends after {}",
                row.events
            );
        };
        let behind = |list: &[i64]| -> Vec<i64> {
            list.get(row.events..).unwrap_or_default().iter().take(most).copied().collect()
        };
        let actions = &sequence.actions[..row.events.min(sequence.actions.len())];
        let request = sample_request::request(Sample {
            user: row.user,
            context: sequence.context.clone(),
            items: items.to_vec(),
            actions: actions.to_vec(),
            candidates: behind(&sequence.items),
            ..Sample::default()
        });
        Ok((request, behind(&sequence.actions)))
    }

    fn clear(&mut self) {
        self.read.clear();
        self.numbers = 0;
    }

    fn sequence(&mut self, row: &IntervalBatch) -> Result<&UserSequence> {
        if !self.read.contains_key(&row.user) {
            let days = self.index.days(row.user);
            let Some(day) = days.iter().find(|day| day.date == row.date).cloned() else {
                bail!("user {} has a batch of {} and no sequence", row.user, row.date);
            };
            let sequence = self.index.read(&day)?;
            if HELD_MOST < self.numbers + sequence.items.len() {
                self.clear();
            }
            self.numbers += sequence.items.len();
            self.read.insert(row.user, sequence);
        }
        Ok(&self.read[&row.user])
    }
}
