//! `data` and `data.*`: what a model is tuned with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use terrace_model::{ChatTemplate, Tokenizer};
use terrace_tune::data::{
    AnswerForm, CaseSource, FirstBatches, JsonLines, LongBench, Split, SplitOptions, TestSet,
    TextEncoder, case_lengths,
};

use crate::model_files::cache_folder;
use crate::options::{at_least_one, flag, part};
use crate::progress;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Data")]
pub struct DataArgs {
    /// LongBenchV2: its own file of questions about long texts. JsonLines: a line for each example,
    /// with "text", "prompt" and "completion", "messages", or "text" and "label".
    #[arg(long, value_name = "KIND", default_value = "LongBenchV2",
          value_parser = PossibleValuesParser::new([
              PossibleValue::new("LongBenchV2"),
              PossibleValue::new("JsonLines").alias("JSON"),
          ]).map(|name| DataKind::named(&name)))]
    data: DataKind,

    /// The file. Left out: of LongBenchV2, data.json in the folder data/LongBench-v2 of Terrace's
    /// cache.
    #[arg(long = "data.path", visible_alias = "data.json-path", value_name = "FILE")]
    path: Option<PathBuf>,

    /// Longer sequences neither train nor validate. Left out: none is too long.
    #[arg(id = "data.max-seq-length", long = "data.max-seq-length", value_name = "TOKENS",
          value_parser = at_least_one::<usize>)]
    max_seq_length: Option<usize>,

    /// Where the sequences' lengths are kept, so that they need not be found again.
    #[arg(long = "data.metadata-dir", value_name = "FOLDER")]
    metadata_dir: Option<PathBuf>,

    /// Share of the sequences that validate.
    #[arg(long = "data.val-split-fraction", value_name = "SHARE", default_value_t = 0.1,
          value_parser = part)]
    val_split_fraction: f64,

    /// Begin with the longest batch, which shows early whether memory is enough.
    #[arg(long = "data.trainloader-longest-first", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set,
          conflicts_with = "trainloader_shortest_first")]
    trainloader_longest_first: bool,

    /// Begin with the shortest batch.
    #[arg(long = "data.trainloader-shortest-first", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    trainloader_shortest_first: bool,

    /// Which sequences are left for tests: rest, those that are too long.
    #[arg(long = "data.test-set-tag", value_name = "TAG",
          value_parser = PossibleValuesParser::new(["rest"])
              .map(|tag| TestSet::named(&tag).expect("the one of them")))]
    test_set_tag: Option<TestSet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    LongBenchV2,
    JsonLines,
}

impl DataKind {
    fn named(name: &str) -> Self {
        if name == "LongBenchV2" { DataKind::LongBenchV2 } else { DataKind::JsonLines }
    }
}

impl DataArgs {
    pub fn first_batches(&self) -> FirstBatches {
        match (self.trainloader_longest_first, self.trainloader_shortest_first) {
            (true, _) => FirstBatches::Longest,
            (_, true) => FirstBatches::Shortest,
            _ => FirstBatches::Any,
        }
    }

    /// The examples; `learns_classes`: which of several each belongs to, and not its next tokens.
    pub fn open(
        &self,
        tokenizer: Arc<Tokenizer>,
        template: Option<Arc<ChatTemplate>>,
        learns_classes: bool,
    ) -> Result<Box<dyn CaseSource>> {
        let encoder = TextEncoder::new(tokenizer, template);
        let path = self.path()?;
        Ok(match self.data {
            DataKind::LongBenchV2 => {
                let answers = if learns_classes { AnswerForm::Class } else { AnswerForm::Letter };
                Box::new(LongBench::open(&path, encoder, answers)?)
            }
            DataKind::JsonLines => {
                let source = JsonLines::open(&path, encoder)?;
                match (learns_classes, source.classes().is_empty()) {
                    (true, true) => bail!(
                        "{} has no \"label\", and the head model learns classes; give \
                         --head_model next_token_prediction",
                        path.display()
                    ),
                    (false, false) => bail!(
                        "{} has labels; give --head_model seq_classification or \
                         seq_classification_on_logits to learn them",
                        path.display()
                    ),
                    _ => Box::new(source),
                }
            }
        })
    }

    /// How many tokens each example has, with a bar while they are found.
    pub fn lengths(&self, source: &dyn CaseSource) -> Result<Vec<usize>> {
        let bar = progress::counted("finding lengths", "cases", source.len());
        let lengths = case_lengths(source, self.metadata_dir.as_deref(), &mut || bar.inc(1));
        bar.finish_and_clear();
        Ok(lengths?)
    }

    pub fn split(&self, lengths: &[usize], most: Option<usize>, seed: u64) -> Result<Split> {
        let limits = [self.max_seq_length, most];
        let options = SplitOptions {
            max_seq_length: limits.into_iter().flatten().min(),
            val_split_fraction: self.val_split_fraction,
            test_set: self.test_set_tag,
            seed,
        };
        Ok(Split::new(lengths, &options)?)
    }

    fn path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.path {
            return Ok(path.clone());
        }
        if self.data == DataKind::JsonLines {
            bail!("--data JsonLines needs its file: give --data.path FILE");
        }
        let path = cache_folder().map(|folder| folder.join(LONG_BENCH));
        match path.filter(|path| Path::is_file(path)) {
            Some(path) => Ok(path),
            None => bail!(
                "LongBench V2 is not here: download its data.json from the Hugging Face hub (the \
                 data set THUDM/LongBench-v2) and give it with --data.path, or put it into \
                 {LONG_BENCH} of Terrace's cache folder"
            ),
        }
    }
}

const LONG_BENCH: &str = "data/LongBench-v2/data.json";
