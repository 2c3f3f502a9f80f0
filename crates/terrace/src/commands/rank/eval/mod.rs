//! `terrace rank eval`: how well a recommender ranks or retrieves, by data of users.
//!
//! The engine that serves computes everything, from its cache unless `--disable_kvcache` is given.
//! Users, requests and metrics are those of the trainer (`tools/hstu`), so that its figures can be
//! compared with these.

mod eval_data;
mod eval_model;
mod eval_report;
mod eval_samples;
mod interval_traffic;
mod leave_one_out;
mod metric_list;
mod negatives;
mod next_items;
mod numpy_random;
mod rank_metric;
mod ranking_eval;
mod request_batches;
mod sample_request;
mod simulation;
mod simulation_report;
mod task_scores;
mod token_counts;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use terrace_engine::rank::RankConfig;
use terrace_model::hstu::HstuTask;

use self::eval_data::EvalData;
use self::eval_model::EvalModel;
use self::eval_report::EvalReport;
use self::rank_metric::HitRule;
use self::request_batches::{Caching, RequestBatches};
use super::engine_choice::EngineChoice;
use super::gin_choice::GinChoice;
use crate::commands::print_report::print_report;
use crate::options::{KvTier, at_least_one};

/// Evaluate a recommender with a data set, as recsys-examples' inference_gr_ranking.py does.
///
/// Candidates are scored, or items found, by the engine that serves. --mode eval asks what the
/// trainer (tools/hstu) does of the users that it does not train on, and prints the same metrics.
/// --mode simulate replays a data set's users as traffic in the order of time, and shows what the
/// cache is worth.
#[derive(Args, Debug)]
#[command(
    after_long_help = "The data are what `terrace preprocess` writes: processed_seqs.csv for --mode
eval, and with --inference processed_seqs_inference.csv and processed_batches.csv for
--mode simulate.

--mode eval
  A model that ranks: of the last 30% of the users with more items than candidates, the first
  max_history_seqlen + max_num_candidates items; the last max_num_candidates of these are scored.
  Metrics: the exact AUC of each task, which is a bit of the action, or the mean AUC of classes.
  With the cache, histories are computed first, and candidates scored after what is cached.
  A model that retrieves: every item but the first of the same users, among all of the model's.
  A sequential model (SequentialArgs.enabled): the last item of every user, among those that the
  trainer draws, uniform or by popularity, and among all that the user has not had.
  Metrics: HR@k, NDCG@k and MRR, as RetrievalArgs.eval_metrics says.
  TrainerArgs.max_eval_iters and eval_batch_size limit the users, as in training.
--mode simulate
  Each row of processed_batches.csv is a request: the user's history until then, and the items that
  come next as candidates; where none come, the history is computed and kept. A date's sequences
  begin anew.

Ids that a table has not got take its default row, which in checkpoints is zeros, as in the
trainer's evaluation; they are counted. A negative id is refused.

Examples:
  terrace rank eval --gin_config_file ./inference/configs/kuairand_1k_inference_ranking.gin \\
    --checkpoint_dir checkpoints/iter550 --mode eval
  terrace rank eval --checkpoint_dir checkpoints/iter550 --mode eval --disable_kvcache
  terrace rank eval --checkpoint_dir checkpoints/iter550 --mode simulate --kv-tier host=4GiB"
)]
pub struct EvalArgs {
    /// The checkpoint's folder: of recsys-examples (torch_module, dynamicemb_module), of the
    /// trainer's sequential models, or a model folder with config.json.
    #[arg(long, value_name = "FOLDER")]
    checkpoint_dir: PathBuf,

    #[command(flatten)]
    gin: GinChoice,

    /// What is done with the model.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Mode::Eval)]
    mode: Mode,

    /// Where the data set was preprocessed, or the file of sequences itself. Left out:
    /// DatasetArgs.dataset_path of the gin file, else tmp_data.
    #[arg(long, value_name = "PATH")]
    dataset_path: Option<PathBuf>,

    /// Compute everything anew in each request.
    #[arg(long)]
    disable_kvcache: bool,

    /// Send no contextual features: sequences begin with the first item.
    #[arg(long)]
    disable_context: bool,

    /// The largest batch: requests that are under way at once. Scores do not depend on it.
    #[arg(long, value_name = "REQUESTS", default_value_t = 4, value_parser = at_least_one::<usize>)]
    max_bs: usize,

    /// Count hits as recsys-examples does, whose HR@k leaves rank k out.
    #[arg(long)]
    compat: bool,

    /// Where keys and values go that leave the device: host=8GiB, disk=FOLDER,100GiB or
    /// redis=HOST:PORT,...; once for each level.
    #[arg(long, value_name = "LEVEL=...")]
    kv_tier: Vec<KvTier>,

    #[command(flatten)]
    engine: EngineChoice,

    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Metrics of the users that the trainer does not train on.
    Eval,
    /// Users of a data set as traffic.
    Simulate,
}

pub fn run(args: &EvalArgs) -> Result<()> {
    let mut model = EvalModel::open(&args.checkpoint_dir, &args.gin)?;
    if args.disable_context {
        model.leave_context_out();
    }
    match args.mode {
        Mode::Eval => print_report(&args.evaluate(model)?, args.json),
        Mode::Simulate => {
            if model.files.config.task == HstuTask::Retrieval {
                bail!("--mode simulate scores candidates; this model retrieves: use --mode eval");
            }
            let data = args.data(&model)?;
            let mut batches = args.start(&model)?;
            print_report(
                &simulation::simulate(&model, &data, &mut batches, args.max_bs)?,
                args.json,
            )
        }
    }
}

impl EvalArgs {
    fn evaluate(&self, mut model: EvalModel) -> Result<EvalReport> {
        let data = self.data(&model)?;
        let hits = if self.compat { HitRule::RecsysExamples } else { HitRule::Standard };
        if model.files.config.task == HstuTask::Ranking {
            let mut batches = self.start(&model)?;
            return ranking_eval::evaluate(&model, &data, &mut batches, self.max_bs);
        }
        let metrics = model.retrieval_metrics()?;
        if let Some(sequential) = model.args.sequential {
            model.find(None)?;
            let mut batches = self.start(&model)?;
            let eval = leave_one_out::LeaveOneOut { model: &model, data: &data, sequential };
            return eval.run(&mut batches, self.max_bs, &metrics, hits);
        }
        let cutoffs = metrics.iter().map(|metric| metric.metric.cutoff());
        let cutoffs = cutoffs.collect::<Option<Vec<usize>>>();
        let items = model.find(cutoffs.and_then(|cutoffs| cutoffs.into_iter().max()))?;
        let mut batches = self.start(&model)?;
        let eval = next_items::NextItems { model: &model, data: &data, items };
        eval.run(&mut batches, self.max_bs, &metrics, hits)
    }

    fn data(&self, model: &EvalModel) -> Result<EvalData> {
        EvalData::of(model, self.dataset_path.as_deref(), self.engine.truncate)
    }

    fn start(&self, model: &EvalModel) -> Result<RequestBatches> {
        let mut config = RankConfig {
            name: model.files.name.clone(),
            max_users: self.max_bs,
            ..self.engine.config()
        };
        for tier in &self.kv_tier {
            tier.set(&mut config.tiers);
        }
        let caching = if self.disable_kvcache { Caching::Off } else { Caching::On };
        RequestBatches::start(&model.files, config, caching)
    }
}
