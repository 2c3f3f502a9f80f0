//! Which sequences a model is evaluated with, and how they become samples.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use terrace_datasets::read::{Kept, SampleRule, SequenceColumns};
use terrace_datasets::{DataFolder, Dataset};
use terrace_engine::rank::Truncate;
use terrace_model::hstu::recsys_args::{DatasetChoice, DatasetFeatures};

use super::eval_model::EvalModel;

pub struct EvalData {
    folder: DataFolder,
    pub columns: SequenceColumns,
    pub rule: SampleRule,
}

impl EvalData {
    /// `path` comes before that of the gin file.
    pub fn of(model: &EvalModel, path: Option<&Path>, truncate: Truncate) -> Result<Self> {
        let args = &model.args;
        let (folder, columns) = match &args.dataset {
            DatasetChoice::Named(named) => {
                let dataset = Dataset::named(&named.dataset_name);
                let given = named.dataset_path.as_ref().map(PathBuf::from);
                let given = path.map(Path::to_owned).or(given);
                let path = given.unwrap_or_else(|| DataFolder::DEFAULT_PATH.into());
                (DataFolder::of_sequences(&dataset, &path), columns(model, Some(&dataset)))
            }
            DatasetChoice::Benchmark(_) => {
                let Some(path) = path else {
                    bail!(
                        "the gin file names no data set (DatasetArgs.dataset_name); give the file \
                         of sequences with --dataset_path"
                    );
                };
                let folder = match path.is_file() {
                    true => DataFolder {
                        path: path.parent().unwrap_or(Path::new(".")).to_owned(),
                        sequences: path.to_owned(),
                    },
                    false => DataFolder::at(path.to_owned()),
                };
                (folder, columns(model, None))
            }
        };
        let rule = SampleRule {
            max_history: args.max_history_seqlen()?,
            max_candidates: args.max_num_candidates(),
            kept: match truncate {
                Truncate::OldestKept => Kept::First,
                Truncate::Recent => Kept::Recent,
            },
        };
        Ok(EvalData { folder, columns, rule })
    }

    /// A row for each user.
    pub fn sequences(&self) -> Result<&Path> {
        there(&self.folder.sequences, "")?;
        Ok(&self.folder.sequences)
    }

    /// Rows as they grow, and when they had grown how far.
    pub fn growing_sequences(&self) -> Result<[PathBuf; 2]> {
        let paths = [self.folder.inference_sequences(), self.folder.batches()];
        paths.iter().try_for_each(|path| there(path, " with --inference"))?;
        Ok(paths)
    }
}

fn there(path: &Path, option: &str) -> Result<()> {
    if path.is_file() {
        return Ok(());
    }
    bail!(
        "{} is not there; `terrace preprocess`{option} writes it, and --dataset_path says where",
        path.display()
    )
}

fn columns(model: &EvalModel, dataset: Option<&Dataset>) -> SequenceColumns {
    let config = &model.files.config;
    let by_date = false;
    let Some(dataset) = dataset.filter(|_| model.args.sequential.is_some()) else {
        return SequenceColumns {
            context: config.contextual_features.clone(),
            item: config.item_feature.clone(),
            action: config.action_feature.clone(),
            time: None,
            by_date,
        };
    };
    // Sequential models call their items "item", whatever the data set.
    let features = dataset.features();
    let known = DatasetFeatures::of(dataset.name());
    SequenceColumns {
        context: Vec::new(),
        item: known.map_or_else(|| features.item.to_owned(), |known| known.item),
        action: None,
        time: features.time.map(str::to_owned),
        by_date,
    }
}
