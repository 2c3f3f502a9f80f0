//! A file of requests, and the engine that answers them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use terrace_engine::rank::{RankError, RankHandle, RankSetup, RankSource};
use terrace_model::hstu::{HstuConfig, HstuFiles};

use super::engine_choice::EngineChoice;
use crate::open_model;

#[derive(Args, Debug)]
pub struct RequestFile {
    /// The file with requests, a JSON object on each line.
    file: PathBuf,

    /// The model's folder: config.json and safetensors, as docs/recommenders.md says.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,

    #[command(flatten)]
    engine: EngineChoice,
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
        let engine = RankSetup { source: RankSource::Files(&files), config: self.engine.config() };
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
}
