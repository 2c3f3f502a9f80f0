//! `terrace predict`: scores the samples of files with a click-through model.

mod column_roles;
mod csv_samples;
mod json_samples;
mod open_samples;
mod parquet_samples;
mod prediction_writer;
mod sample_builder;
mod sample_file;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use terrace_engine::DeviceChoice;
use terrace_engine::predict::PredictModel;
use terrace_model::hstu::metrics::auc;

use self::column_roles::NamedColumns;
use self::prediction_writer::PredictionWriter;
use self::sample_builder::{LabelledSamples, SampleBuilder};
use crate::open_repository::OpenedRepository;
use crate::options::{LogOptions, PsOptions};
use crate::progress;

/// Score the samples of files with a click-through model.
///
/// Reads lines of JSON, CSV with a head, and Parquet as NVTabular writes it; writes a line of
/// numbers for each sample, one for each label. Where a file has labels, the AUC comes last.
#[derive(Args, Debug)]
#[command(after_long_help = "Samples:
  .jsonl    {\"dense\": [0.5, 1.0], \"slots\": [[1], [], [8, 9]], \"label\": 1} on a line, or a
            request: {\"DES\": [..], \"CATCOLUMN\": [..], \"ROWINDEX\": [..]}
  .csv      a head with names; several keys of a slot stand between |
  .parquet  a column for each feature; several keys of a slot are a list. NVTabular's
            _metadata.json beside it says which columns are what

Examples:
  terrace predict examples/click_demo/click_demo samples.csv
  terrace predict /models/dlrm --ps /models/ps.json day_23.parquet --output scores.csv")]
pub struct PredictArgs {
    /// The model's folder in its repository: with config.pbtxt, and a folder for each version. A
    /// path, or an s3:// URL.
    #[arg(value_name = "MODEL")]
    model: String,

    /// Files with samples.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The version of the model. Left out: the latest.
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,

    /// Write here instead of to standard output; the file is there when all is done.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Columns with dense features, in the model's order. Left out: as _metadata.json says, or the
    /// first ones behind the label.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    dense_columns: Vec<String>,

    /// Columns with the keys of slots, in the model's order. Left out: as _metadata.json says, or
    /// those behind the dense features.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    slot_columns: Vec<String>,

    /// The column with the label. Left out: as _metadata.json says, or label, or click.
    #[arg(long, value_name = "NAME")]
    label_column: Option<String>,

    /// Where the keys of every slot begin with 0: how many keys each slot has, as in training
    /// (slot_size_array). Left out: keys are taken as they are.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    slot_sizes: Vec<i64>,

    /// auto (the first GPU, else the CPU), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// A folder with cuBLASLt, looked into before the usual ones. Left out: the usual ones alone.
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    cuda_libs: Vec<PathBuf>,

    #[command(flatten)]
    tables: PsOptions,
    #[command(flatten)]
    log: LogOptions,
}

pub fn run(args: &PredictArgs) -> Result<()> {
    args.log.start();
    let PredictArgs { model, tables, device, cuda_libs, .. } = args;
    let opened = OpenedRepository::open_model(model, tables, *device, cuda_libs)?;
    let (model, _tables) = opened.load_version(args.version)?;
    let mut writer = PredictionWriter::open(args.output.as_deref())?;
    let mut scored = Scored::default();
    for path in &args.files {
        args.score(path, &model, &mut writer, &mut scored).with_context(|| {
            format!("{}: stopped behind sample {}", path.display(), scored.count)
        })?;
    }
    writer.finish()?;
    eprintln!("{}", scored.summary());
    Ok(())
}

impl PredictArgs {
    fn score(
        &self,
        path: &Path,
        model: &PredictModel,
        writer: &mut PredictionWriter,
        scored: &mut Scored,
    ) -> Result<()> {
        let shape = model.shape();
        let mut builder = SampleBuilder::new(shape, &self.slot_sizes)?;
        let columns = NamedColumns {
            dense: self.dense_columns.clone(),
            slots: self.slot_columns.clone(),
            label: self.label_column.clone(),
        };
        let mut file = open_samples::open(path, &columns, &builder)?;
        let bar = progress::samples(path.display().to_string(), file.progress().1);
        loop {
            file.fill(&mut builder, shape.max_samples)?;
            if builder.len() == 0 {
                break;
            }
            let LabelledSamples { samples, labels } = builder.take();
            let predicted = model.predict_blocking(samples)?;
            writer.write(&predicted.numbers, shape.outputs)?;
            scored.add(&predicted.numbers, shape.outputs, &labels);
            bar.set_position(file.progress().0);
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// What was scored so far.
#[derive(Default)]
struct Scored {
    count: usize,
    /// The first number of samples that have a label.
    scores: Vec<f32>,
    labels: Vec<f32>,
}

impl Scored {
    fn add(&mut self, numbers: &[f32], width: usize, labels: &[f32]) {
        self.count += numbers.len() / width.max(1);
        if !labels.is_empty() {
            self.scores.extend(numbers.iter().step_by(width.max(1)));
            self.labels.extend(labels);
        }
    }

    fn summary(&self) -> String {
        let count = self.count;
        let positive = |at: usize| self.labels[at] > 0.5;
        match auc(&self.scores, positive) {
            Some(auc) => format!("{count} samples, AUC {auc:.6} over {}", self.labels.len()),
            None => format!("{count} samples"),
        }
    }
}

#[cfg(test)]
mod tests;
