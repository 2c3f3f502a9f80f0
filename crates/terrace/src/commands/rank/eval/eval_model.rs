//! The model that is evaluated, with the gin file that it was trained with.

use std::path::Path;

use anyhow::{Context, Result, bail};
use terrace_model::hstu::checkpoints::{GenerativeArgs, HstuCheckpoint};
use terrace_model::hstu::recsys_args::{RecsysArgs, TaskArgs};
use terrace_model::hstu::{HstuFiles, HstuTask};

use super::rank_metric::NamedMetric;
use crate::commands::rank::gin_choice::GinChoice;
use crate::open_model;

pub struct EvalModel {
    pub args: RecsysArgs,
    pub files: HstuFiles,
}

/// The trainer's file of a sequential model.
const SEQUENTIAL_FILE: &str = "checkpoint.pt";

impl EvalModel {
    pub fn open(checkpoint_dir: &Path, gin: &GinChoice) -> Result<Self> {
        let gin_file = gin.file(checkpoint_dir)?;
        let args = gin.recsys_args(&gin_file)?;
        let what = || format!("cannot open the checkpoint {}", checkpoint_dir.display());
        let mut files = if HstuFiles::is_in(checkpoint_dir) {
            HstuFiles::open(checkpoint_dir).with_context(what)?
        } else if args.sequential.is_some() {
            open_sequential(checkpoint_dir).with_context(what)?
        } else {
            for note in args.inference_notes()? {
                eprintln!("note: {note}");
            }
            HstuFiles::open_recsys(&args, checkpoint_dir).with_context(what)?
        };
        files.hash_store = open_model::hash_store();
        let model = EvalModel { args, files };
        model.check().with_context(|| {
            format!("{} is not of {}", gin_file.display(), checkpoint_dir.display())
        })?;
        Ok(model)
    }

    /// A folder of ours says itself what it is; the gin file must say the same.
    fn check(&self) -> Result<()> {
        let config = &self.files.config;
        let task = match self.args.task {
            TaskArgs::Ranking(_) => HstuTask::Ranking,
            TaskArgs::Retrieval(_) => HstuTask::Retrieval,
        };
        if task != config.task {
            bail!("the gin file's task is {task:?}, the model's {:?}", config.task);
        }
        if self.args.sequential.is_some() {
            if !config.has_times() {
                bail!("SequentialArgs.enabled is True, and the model is not of that variant");
            }
            return Ok(());
        }
        let features = self.args.features()?;
        let named = (&features.contextual, &features.item, &features.action);
        let found = (&config.contextual_features, &config.item_feature, &config.action_feature);
        if named != found {
            bail!("the gin file's features are {named:?}, the model's {found:?}");
        }
        let most = config.token_layout().history_tokens(self.args.max_history_seqlen()?);
        if config.max_history_tokens < most {
            let found = config.max_history_tokens;
            bail!("the gin file's histories have up to {most} tokens, the model's {found}");
        }
        Ok(())
    }

    /// Sequences begin with their first item from here on.
    pub fn leave_context_out(&mut self) {
        let config = &mut self.files.config;
        config.max_history_tokens -= config.contextual_features.len();
        config.contextual_features.clear();
    }

    /// What a model that retrieves is measured by.
    pub fn retrieval_metrics(&self) -> Result<Vec<NamedMetric>> {
        let names = match &self.args.task {
            TaskArgs::Retrieval(args) => &args.eval_metrics,
            TaskArgs::Ranking(_) => bail!("a model that ranks has no metrics of retrieval"),
        };
        names.iter().map(|name| NamedMetric::parse(name)).collect()
    }

    /// Lets so many items be asked for, or all that there are, and returns how many.
    pub fn find(&mut self, most: Option<usize>) -> Result<usize> {
        let tables = self.files.tables()?;
        let table = tables.iter().find(|table| table.name == self.files.config.item_feature);
        let items = table.expect("each feature has a table").rows.rows().max(1);
        let most = most.map_or(items, |most| most.min(items));
        self.files.config.max_candidates = most;
        Ok(most)
    }

    /// How many users are evaluated at most.
    pub fn users_most(&self) -> usize {
        let trainer = self.args.trainer.as_ref();
        let iterations =
            trainer.and_then(|args| Some((args.max_eval_iters?, args.eval_batch_size)));
        iterations.map_or(usize::MAX, |(count, users)| count.saturating_mul(users))
    }
}

fn open_sequential(folder: &Path) -> Result<HstuFiles> {
    let gin = folder.join(GinChoice::OWN);
    let args = GenerativeArgs::open(&gin).with_context(|| format!("in {}", gin.display()))?;
    let checkpoint = HstuCheckpoint::from_generative(&args, &folder.join(SEQUENTIAL_FILE))?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(checkpoint.into_files(name)?)
}
