//! A file of requests, and the engine that answers them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use terrace_engine::DeviceChoice;
use terrace_engine::rank::{RankConfig, RankError, RankHandle, RankSetup, RankSource, Truncate};
use terrace_model::hstu::{HstuConfig, HstuFiles};

use crate::byte_size::ByteSize;
use crate::open_model;

#[derive(Args, Debug)]
pub struct RequestFile {
    /// The file with requests, a JSON object on each line.
    file: PathBuf,

    /// The model's folder: config.json and safetensors, as docs/recommenders.md says.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,

    /// auto (the first GPU, else the CPU), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Bytes of keys and values that are kept of users. Left out: 1 GiB on the CPU, most of what
    /// is free on a GPU.
    #[arg(long, value_name = "BYTES")]
    kv_bytes: Option<ByteSize>,

    /// What stays of a history that is too long: `oldest_kept` or `recent`.
    #[arg(long, value_name = "WHICH", default_value = "oldest_kept")]
    truncate: Truncate,

    /// Computes in f32 instead of bf16 with f32 sums.
    #[arg(long)]
    f32: bool,

    /// Worker threads. Left out: one for each processor.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
}

/// What is left of a line when its fields are read.
pub type UnknownFields = BTreeMap<String, IgnoredAny>;

/// A line of a file.
pub trait RequestLine: DeserializeOwned {
    fn unknown(&self) -> &UnknownFields;
}

impl RequestFile {
    /// Answers each line with a line, in their order.
    pub fn answer<Line: RequestLine, Answer: Serialize>(
        &self,
        answer: impl AsyncFn(&RankHandle, &HstuConfig, Line) -> Result<Answer, RankError>,
    ) -> Result<()> {
        let text = std::fs::read_to_string(&self.file)
            .with_context(|| format!("cannot read {}", self.file.display()))?;
        let mut files = HstuFiles::open(&self.model)
            .with_context(|| format!("cannot open the model {}", self.model.display()))?;
        files.hash_store = open_model::hash_store();
        let engine = RankSetup { source: RankSource::Files(&files), config: self.config() };
        let engine = engine.start()?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut out = std::io::stdout().lock();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let at = || format!("line {} of {}", number + 1, self.file.display());
            let line: Line =
                serde_json::from_str(line).map_err(|error| anyhow!("{}: {error}", at()))?;
            if let Some(field) = line.unknown().keys().next() {
                bail!("{}: unknown field {field:?}", at());
            }
            let answer = runtime
                .block_on(answer(&engine, &files.config, line))
                .map_err(|error| anyhow!("{}: {error}", at()))?;
            writeln!(out, "{}", serde_json::to_string(&answer)?)?;
        }
        Ok(())
    }

    fn config(&self) -> RankConfig {
        let defaults = RankConfig::default();
        RankConfig {
            kv_bytes: self.kv_bytes.map(|bytes| bytes.0),
            device: self.device,
            f32: self.f32,
            truncate: self.truncate,
            threads: self.threads.unwrap_or(defaults.threads),
            ..defaults
        }
    }
}
