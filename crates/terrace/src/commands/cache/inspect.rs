//! `terrace cache inspect`: draws what sequences keep, of a file or of a running server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use terrace_engine::CacheTrace;

use super::cache_drawing::CacheDrawing;
use super::level_table::{Level, LevelTable};

/// Draw KV caches: pages, their holders, and which tokens each head has kept.
///
/// Of a file, what `terrace generate --cache-trace FILE` wrote when outputs ended. Of a server,
/// how many pages are on each level (device, host, disk, Redis), and the sequences that run now.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the drawing:
  Each line is a head of a layer. From the left to the right stands the sequence, from its first
  token to its newest; the higher a block, the more of that part's tokens are kept.

Examples:
  terrace generate --file prompts.txt --kv-cache.name h2o-default --kv-cache.cache-length 256 \\
      --kv-cache.chunk-size 64 --cache-trace trace.json
  terrace cache inspect trace.json --layers 0,15,29
  terrace cache inspect --url http://127.0.0.1:8000")]
pub struct InspectArgs {
    /// The file with traces.
    #[arg(required_unless_present = "url", conflicts_with = "url")]
    file: Option<PathBuf>,

    /// A running server.
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// API key of the server, if it needs one.
    #[arg(long, value_name = "KEY", requires = "url")]
    api_key: Option<String>,

    /// Draw only these layers.
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    layers: Vec<usize>,
}

pub fn run(args: &InspectArgs) -> Result<()> {
    let traces = match (&args.file, &args.url) {
        (Some(file), _) => read(file)?,
        (None, Some(url)) => {
            let models = ask(url, args.api_key.as_deref())?;
            for ModelCaches { model, levels, .. } in &models {
                println!("{model}: pages of keys and values by level\n{}\n", LevelTable(levels));
            }
            models.into_iter().flat_map(|model| model.sequences).collect()
        }
        (None, None) => unreachable!("one of them is required"),
    };
    if traces.is_empty() {
        println!("no sequence is there");
    }
    let layers = (!args.layers.is_empty()).then_some(args.layers.as_slice());
    for trace in &traces {
        println!("{}", CacheDrawing { trace, layers });
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<CacheTrace>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} holds no traces of caches", file.display()))
}

fn ask(url: &str, api_key: Option<&str>) -> Result<Vec<ModelCaches>> {
    let route = format!("{}/v1/kv_cache?positions=true", url.trim_end_matches('/'));
    let mut request = ureq::get(&route);
    if let Some(key) = api_key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    let mut response = request.call().with_context(|| format!("cannot ask {route}"))?;
    let text = response.body_mut().with_config().limit(MAX_BYTES).read_to_string()?;
    serde_json::from_str(&text).with_context(|| format!("{route} answered with no traces"))
}

/// What a server reports of one of its models.
#[derive(Deserialize)]
struct ModelCaches {
    model: String,
    sequences: Vec<CacheTrace>,
    levels: Vec<Level>,
}

/// Of a server's response: positions of many long sequences take some space.
const MAX_BYTES: u64 = 1 << 30;
