//! `terrace ps publish`: sends new rows and dense weights to running servers, over Kafka.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use terrace_embedding::{
    AuditedRows, FolderPublication, KeyKind, PartitionRule, RowDigests, SparseFolder, TableDiff,
    TagStyle, UpdatePublisher, UpdatePublisherConfig, dense_topic,
};

use crate::open_folder::{model_path, open_folder};
use crate::progress;
use crate::time_span::TimeSpan;

/// Publish a version of a table, or only what is new in it, to servers over Kafka.
///
/// With --since only rows are sent that differ from an older version or are not in it; this takes
/// 16 bytes of memory for each key of both. Keys that the new version has no more cannot be sent,
/// and stay. Rows that are sent twice do no harm.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:
  terrace ps publish --brokers kafka:9092 --model dcn --table sparse_embedding1 \\
      tuesday/dcn0_sparse.model --since monday/dcn0_sparse.model
  terrace ps publish --brokers kafka:9092 --model dcn --dense dcn.safetensors --version 7

Rows go to the topic hps_et.MODEL.TABLE, dense weights to hps_dense.MODEL. Topics must be there,
or the brokers must be set up to create them.")]
pub struct PublishArgs {
    /// Brokers, as HOST:PORT, separated by commas.
    #[arg(long, value_name = "HOST:PORT")]
    brokers: String,

    /// The model, as servers call it.
    #[arg(long, value_name = "NAME")]
    model: String,

    /// The table, as servers call it.
    #[arg(long, value_name = "NAME", requires = "folder")]
    table: Option<String>,

    /// The new version: a folder with the files key and emb_vector.
    #[arg(value_name = "NEW_FOLDER", requires = "table", required_unless_present = "dense")]
    folder: Option<String>,

    /// An older version that servers have: only what is new is sent.
    #[arg(long, value_name = "OLD_FOLDER", requires = "folder")]
    since: Option<String>,

    /// Whose names and partitions: the last releases' of HugeCTR, or those up to 3.3.
    #[arg(long, value_name = "STYLE", default_value = "hps")]
    style: PublishedStyle,

    /// Keys of servers: i64 where supportlonglong is true, else u32.
    #[arg(long, value_name = "KIND", default_value = "i64")]
    key_kind: PublishedKeys,

    /// Dense weights of the model, as safetensors.
    #[arg(long, value_name = "FILE", requires = "version")]
    dense: Option<PathBuf>,

    /// The dense weights' version: greater than all that were published before.
    #[arg(long, value_name = "NUMBER", requires = "dense")]
    version: Option<u64>,

    /// The longest wait for brokers: for an answer, for room, and for the last message.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: TimeSpan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PublishedStyle {
    Hps,
    Hctr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PublishedKeys {
    I64,
    U32,
}

pub fn run(args: &PublishArgs) -> Result<()> {
    // Files first: a slip in a path should not wait for brokers.
    let dense = args
        .dense
        .as_ref()
        .map(|file| std::fs::read(file).with_context(|| format!("cannot read {}", file.display())));
    let dense = dense.transpose()?;
    let rows = match (&args.folder, &args.table) {
        (Some(folder), Some(table)) => Some(NewRows::find(args, table, folder)?),
        _ => None,
    };
    let wait = Duration::from_secs(args.timeout.0);
    let rule = match args.style {
        PublishedStyle::Hps => PartitionRule::Mix,
        PublishedStyle::Hctr => PartitionRule::Modulo,
    };
    let publisher = UpdatePublisher::new(UpdatePublisherConfig {
        wait_most: wait,
        delivery_timeout: wait,
        ..UpdatePublisherConfig::new(args.brokers.clone(), rule)
    })?;
    if let Some(rows) = rows {
        rows.publish(args, &publisher, wait)?;
    }
    if let (Some(weights), Some(version)) = (dense, args.version) {
        let topic = dense_topic(&args.model);
        publisher.publish_dense(&topic, version, &weights)?;
        publisher.flush(wait)?;
        println!("published version {version} to {topic}: {} bytes", weights.len());
    }
    Ok(())
}

/// What is to be sent.
struct NewRows {
    folder: SparseFolder,
    topic: String,
    /// `None`: all.
    keys: Option<Vec<i64>>,
}

impl NewRows {
    fn find(args: &PublishArgs, table: &str, folder: &str) -> Result<Self> {
        let folder = open_folder(&model_path(folder), None)?;
        let style = match args.style {
            PublishedStyle::Hps => TagStyle::Hps,
            PublishedStyle::Hctr => TagStyle::Hctr,
        };
        let topic = style.table_tag(&args.model, table).kafka_topic().to_owned();
        let keys = args.since.as_ref().map(|old| news(args, old, &folder)).transpose()?;
        Ok(NewRows { folder, topic, keys })
    }

    fn publish(
        &self,
        args: &PublishArgs,
        publisher: &UpdatePublisher,
        wait: Duration,
    ) -> Result<()> {
        let total = self.keys.as_ref().map_or(self.folder.count(), |keys| keys.len() as u64);
        let publication = FolderPublication {
            folder: &self.folder,
            keys: self.keys.as_deref(),
            topic: &self.topic,
            key_kind: args.key_kind.kind(),
            flush: wait,
        };
        let begun = Instant::now();
        let bar = progress::rows("publishing", total);
        let sent = publication.send(publisher, &mut |rows| bar.set_position(rows));
        bar.finish_and_clear();
        let topic = &self.topic;
        let sent = sent.with_context(|| {
            let arrived = publisher.acknowledged_rows();
            format!(
                "{arrived} of {total} rows were acknowledged by {topic}; publish again, which \
                 repeats them"
            )
        })?;
        let seconds = begun.elapsed().as_secs_f64().max(f64::EPSILON);
        let rate = sent as f64 / seconds;
        println!("published {sent} rows to {topic} in {seconds:.1} s ({rate:.0} rows/s)");
        Ok(())
    }
}

impl PublishedKeys {
    fn kind(self) -> KeyKind {
        match self {
            PublishedKeys::I64 => KeyKind::I64,
            PublishedKeys::U32 => KeyKind::U32,
        }
    }
}

/// The keys whose rows are sent, and what is left out is said.
fn news(args: &PublishArgs, old: &str, new: &SparseFolder) -> Result<Vec<i64>> {
    let old_folder = open_folder(&model_path(old), None)?;
    if old_folder.dim() != new.dim() {
        bail!(
            "rows of {old} have {} numbers, and those of {} have {}",
            old_folder.dim(),
            new.folder(),
            new.dim()
        );
    }
    let digests = |folder: &SparseFolder, what: &'static str| {
        let bar = progress::rows(what, folder.count());
        let read = &mut |rows| bar.set_position(rows);
        let rows = AuditedRows::Files(std::slice::from_ref(folder));
        RowDigests::read(rows, args.key_kind.kind(), folder.dim(), read)
    };
    let (a, b) = (digests(&old_folder, "reading the old")?, digests(new, "reading the new")?);
    let diff = TableDiff::between(&a, &b, 0);
    println!("{} rows are new, {} changed, {} equal", diff.only_in_b, diff.changed, diff.equal);
    if diff.only_in_a > 0 {
        println!(
            "{} keys are not in the new version: removals cannot be sent, and servers keep their \
             rows until they load a version",
            diff.only_in_a
        );
    }
    Ok(TableDiff::news(&a, &b))
}
