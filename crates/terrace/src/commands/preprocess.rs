//! `terrace preprocess`: a data set's own files become sequences by user.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use terrace_datasets::{
    ColumnRange, DataFolder, Dataset, PreprocessOptions, PreprocessReport, Stage, preprocess,
};

use crate::byte_size::ByteSize;
use crate::progress;

/// Turn the files of a data set into sequences by user, for training, evaluation and serving.
///
/// Logs of any length are sorted on disk, in memory of a fixed size.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  terrace preprocess --dataset_name kuairand-1k
  terrace preprocess --dataset_name kuairand-1k --inference --batch_ts_interval 60
  terrace preprocess --dataset_name ml-20m --dataset_path /data
  terrace preprocess --dataset_name beauty --sequence_file beauty.txt")]
pub struct PreprocessArgs {
    /// kuairand-pure, kuairand-1k, kuairand-27k, ml-1m, ml-20m, ml-100k, or a name of one's own for
    /// the sequences of --sequence-file.
    #[arg(long, value_name = "NAME")]
    dataset_name: String,

    /// Where the data set's archive is unpacked, or the folder of its files. Results are written
    /// beside these.
    #[arg(long, value_name = "FOLDER", default_value = DataFolder::DEFAULT_PATH)]
    dataset_path: PathBuf,

    /// A file with `user item` on each line, in the order of time. The sequences are written to a
    /// folder of the data set's name in --dataset-path.
    #[arg(long, value_name = "FILE")]
    sequence_file: Option<PathBuf>,

    /// Write processed_seqs.csv, for training and evaluation; this is always done.
    #[arg(long)]
    training: bool,

    /// Also write processed_seqs_inference.csv and processed_batches.csv: sequences by user and
    /// date, and how they grow.
    #[arg(long)]
    inference: bool,

    /// Events of a user that are so many seconds from the first of them are one batch.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "inference")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    batch_ts_interval: u32,

    /// Memory for sorting. Besides it the table of users, and the longest sequence, are in memory.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = sorting_memory)]
    memory: ByteSize,
}

fn sorting_memory(text: &str) -> Result<ByteSize, String> {
    const LEAST: usize = 1 << 20;
    let memory: ByteSize = text.parse()?;
    if memory.0 < LEAST {
        return Err("sorting takes at least 1MiB".to_owned());
    }
    Ok(memory)
}

pub fn run(args: &PreprocessArgs) -> Result<()> {
    let options = PreprocessOptions {
        dataset: args.dataset()?,
        dataset_path: args.dataset_path.clone(),
        memory_bytes: args.memory.0,
        inference_interval_seconds: args.inference.then_some(args.batch_ts_interval),
    };
    let reading = progress::bytes("reading", 0);
    let writing = progress::rows("writing", 0);
    let report = preprocess(&options, &|stage| match stage {
        Stage::Reading { done, of } => {
            reading.set_length(of);
            reading.set_position(done);
        }
        Stage::Writing { done, of } => {
            reading.finish_and_clear();
            writing.set_length(of);
            writing.set_position(done);
        }
    })?;
    reading.finish_and_clear();
    writing.finish_and_clear();
    print(&options.dataset, &report);
    Ok(())
}

impl PreprocessArgs {
    fn dataset(&self) -> Result<Dataset> {
        let dataset = Dataset::named(&self.dataset_name);
        match (dataset, &self.sequence_file) {
            (Dataset::Sequences { name, .. }, Some(file)) => {
                Ok(Dataset::Sequences { name, file: Some(file.clone()) })
            }
            (Dataset::Sequences { name, .. }, None) => {
                let known: Vec<String> = Dataset::KNOWN.iter().map(ToString::to_string).collect();
                bail!(
                    "no data set {name:?}; known are {}. Sequences of one's own are taken with \
                     --sequence-file",
                    known.join(", ")
                )
            }
            (known, Some(_)) => bail!("{known} has files of its own; leave --sequence-file out"),
            (known, None) => Ok(known),
        }
    }
}

fn print(dataset: &Dataset, report: &PreprocessReport) {
    let sequences = &report.sequences;
    println!(
        "{dataset}: {} users with {} events, {} to {} each; {} users left out",
        sequences.users,
        sequences.events,
        sequences.shortest,
        sequences.longest,
        sequences.users_left_out
    );
    let features = dataset.features();
    let range = |name: &str, range: Option<ColumnRange>| {
        if let Some(ColumnRange { least, largest }) = range {
            println!("  {name}: {least} to {largest}");
        }
    };
    range("user_id", sequences.user_ids);
    range(features.item, sequences.item_ids);
    if let Some(action) = features.action {
        range(action, sequences.actions);
    }
    for (name, largest) in &sequences.codes {
        println!("  {name}: 1 to {largest}");
    }
    if let Some(inference) = report.inference {
        println!("  inference: {} sequences in {} batches", inference.sequences, inference.batches);
    }
    for path in &report.written {
        println!("wrote {}", path.display());
    }
}
