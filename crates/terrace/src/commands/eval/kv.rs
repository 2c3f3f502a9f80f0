//! `terrace eval kv`: how eviction and quantisation of KV caches change quality.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use terrace_engine::TokenId;
use terrace_engine::text::LanguageModel;

use super::cache_case::{CacheCase, PolicyChoice, Share};
use super::kv_report::{KvReport, NeedlePart, PerplexityPart};
use super::needle::{SubmittedNeedles, longest_good};
use super::needle_prompts::{NeedlePrompts, tokens_of};
use super::perplexity::{PerplexityRow, Predicted, ReadText};
use super::run::Requests;
use crate::commands::print_report::print_report;
use crate::open_model;
use crate::options::{EngineDefaults, EngineOptions, start_quiet_log};
use crate::progress;

const DEFAULT_POLICIES: &str = "lastrec,streamingllm,h2o,h2o-vlen,h2o-orig";

/// Measure how KV cache eviction and quantisation change output quality.
///
/// Two things are measured for every cache. Perplexity: how well the model predicts each token of
/// a real text from those before it. Retrieval: a sentence with a number is hidden in a segment of
/// the text, the question comes at the end, and outputs that contain the number are counted. A
/// dense cache is always measured too: it is what the others are compared to.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the tables:
  slots        tokens that the cache keeps, as a share of the text's tokens
  chunk        tokens that are computed, and evicted for, together (at most a quarter of the
               slots)
  to dense     how much larger the perplexity is than with everything kept
  lost beyond  nats that a token behind the first `slots` loses on average to a dense cache, with
               the standard error of that mean; the tokens before it are the same in every cache
  other best   tokens for which another one is the most probable than with everything kept
  found        outputs that contain the hidden number

Arguments of a policy follow its name, and may be shares of the slots: h2o:grace_period=25%

Examples:
  terrace eval kv --text book.txt
  terrace eval kv --text book.txt --measure perplexity --policies h2o,lastrec --chunk-sizes 1,128
  terrace eval kv --text book.txt --policies dense,h2o --buffers torch-quantized8,torch-quantized4
  terrace eval kv --text book.txt --measure needle --needle-lengths 1024 --json > found.json")]
pub struct KvEvalArgs {
    /// A file with a long text in a language that the model knows.
    #[arg(long, value_name = "FILE")]
    text: PathBuf,

    /// What to measure.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "perplexity,needle")]
    measure: Vec<Measure>,

    /// Policies, each with arguments if need be, such as h2o:grace_period=25%.
    #[arg(long, value_name = "POLICY[:NAME=VALUE]", value_delimiter = ',',
          value_parser = PolicyChoice::parse,
          default_value = DEFAULT_POLICIES)]
    policies: Vec<PolicyChoice>,

    /// Buffers: default, torch-quantized8, torch-quantized4, bnb-quantized8, bnb-quantized4, fp8.
    #[arg(long, value_name = "BUFFER", value_delimiter = ',', default_value = "default")]
    buffers: Vec<String>,

    /// Cache lengths, as shares of a text's tokens.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = Share::parse,
          default_value = "12.5%,25%,50%")]
    lengths: Vec<Share>,

    /// Tokens that are computed, and evicted for, together.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', default_value = "128")]
    chunk_sizes: Vec<usize>,

    /// Tokens of a segment of the text whose perplexity is measured.
    #[arg(long, value_name = "TOKENS", default_value_t = 4000)]
    tokens: usize,

    /// Segments that are read, one after the other from the text's start.
    #[arg(long, value_name = "SEGMENTS", default_value_t = 1)]
    segments: usize,

    /// Lengths of the prompts in which a number is hidden.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', default_value = "512,1024,2048")]
    needle_lengths: Vec<usize>,

    /// Where it is hidden.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = Share::parse,
          default_value = "10%,30%,50%,70%,90%")]
    depths: Vec<Share>,

    /// Questions for each length and depth.
    #[arg(long, value_name = "QUESTIONS", default_value_t = 2)]
    needles: usize,

    /// Seed of which segment of the text hides which number.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,

    /// Draw perplexity and retrieval over the cache length into this folder, as SVG.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    #[command(flatten)]
    engine: EngineOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    Perplexity,
    Needle,
}

/// Requests computed together, where nobody says.
const BATCH: usize = 8;
/// Of a needle's output, and some to spare.
const NEW_TOKENS: usize = 64;

pub fn run(args: &KvEvalArgs) -> Result<()> {
    start_quiet_log();
    args.check()?;
    let text = std::fs::read_to_string(&args.text)
        .with_context(|| format!("cannot read {} (it must be UTF-8)", args.text.display()))?;
    let page_tokens = args.engine.page_tokens();
    let longest = args.longest();
    let chunk_most = args.chunk_sizes.iter().copied().max().unwrap_or(1);
    let model = open_model::open_with(&args.engine, |_| EngineDefaults {
        step_tokens: (chunk_most + 1) * BATCH,
        ..EngineDefaults::measuring(BATCH, longest, NEW_TOKENS, page_tokens)
    })?;
    let report = measure(args, &model, &tokens_of(&model, &text)?)?;
    print_report(&report, args.json)?;
    if let Some(folder) = &args.plots {
        for path in report.write_plots(folder)? {
            eprintln!("drawn: {path}");
        }
    }
    Ok(())
}

impl KvEvalArgs {
    fn check(&self) -> Result<()> {
        let counts = [self.tokens.saturating_sub(1), self.needles, self.segments];
        if counts.contains(&0) || self.chunk_sizes.contains(&0) {
            bail!("give 2 --tokens or more; of --segments, --needles and --chunk-sizes 1 or more");
        }
        Ok(())
    }

    fn measures(&self, what: Measure) -> bool {
        self.measure.contains(&what)
    }

    /// Tokens of the longest prompt. Needles are hidden between sentences, so their prompts come
    /// out a little longer or shorter than requested.
    fn longest(&self) -> usize {
        let needle = self.needle_lengths.iter().copied().max().unwrap_or(0) + NEW_TOKENS;
        [(Measure::Perplexity, self.tokens), (Measure::Needle, needle)]
            .into_iter()
            .filter(|(what, _)| self.measures(*what))
            .map(|(_, tokens)| tokens)
            .max()
            .unwrap_or(1)
    }

    /// Dense first, and once.
    fn cases(&self) -> Vec<CacheCase> {
        let dense = CacheCase::dense();
        let cases = CacheCase::all(&self.policies, &self.buffers, &self.lengths, &self.chunk_sizes);
        let others = cases.into_iter().filter(|case| *case != dense);
        [dense.clone()].into_iter().chain(others).collect()
    }
}

fn measure(args: &KvEvalArgs, model: &LanguageModel, text: &[TokenId]) -> Result<KvReport> {
    let requests = Requests::new(model, progress::texts("reading"));
    let cases = args.cases();
    // All are submitted before the first is awaited: what the engine refuses is reported at once.
    let mut reading = Vec::new();
    if args.measures(Measure::Perplexity) {
        let have = text.len();
        let wanted = args.tokens.saturating_mul(args.segments);
        let read = text.get(..wanted).with_context(|| {
            format!("the text has {have} tokens; give a longer --text, or fewer --tokens")
        })?;
        for case in &cases {
            reading.push(ReadText::submit(&requests, case, read, args.tokens)?);
        }
    }
    let mut prompts = NeedlePrompts::new(model, text, args.seed);
    let mut submitted = Vec::new();
    let mut questions = Vec::new();
    if args.measures(Measure::Needle) {
        for &length in &args.needle_lengths {
            questions.extend(prompts.make(length, &args.depths, args.needles)?);
        }
        ensure!(!questions.is_empty(), "give at least one of --needle-lengths and --depths");
        for case in &cases {
            submitted.push(SubmittedNeedles::submit(&requests, case, &questions)?);
        }
    }
    let read = reading.into_iter().map(|reading| reading.predicted(&requests));
    let read = read.collect::<Result<Vec<_>>>()?;
    let rows =
        submitted.into_iter().map(|needles| needles.row(&requests)).collect::<Result<Vec<_>>>()?;
    let needle = match rows.first() {
        None => None,
        Some(dense) => Some(NeedlePart {
            questions: questions.len(),
            longest_good: longest_good(&requests, dense, &mut prompts, &args.depths, args.needles)?,
            rows,
        }),
    };
    requests.finish();
    Ok(KvReport {
        model: model.name().to_owned(),
        device: model.memory().device.clone(),
        seed: args.seed,
        perplexity: perplexity(args, &read),
        needle,
    })
}

fn perplexity(args: &KvEvalArgs, read: &[(CacheCase, Vec<Predicted>)]) -> Option<PerplexityPart> {
    let (_, dense) = read.first()?;
    let row = |(case, read): &(CacheCase, Vec<Predicted>)| PerplexityRow::new(case, read, dense);
    let rows = read.iter().map(row).collect();
    Some(PerplexityPart { tokens: args.tokens, segments: args.segments, rows })
}
