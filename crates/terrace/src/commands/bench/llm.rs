//! `terrace bench llm`: tokens per second of a language model, without the network.
//!
//! Every request has a prompt of its own random tokens, so nothing is shared between prefixes,
//! and makes exactly as many tokens as asked. The reading rate counts from the submission to the
//! moment when the last request has its first token, the writing rate from there to the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use terrace_engine::TokenId;
use terrace_engine::text::{
    GenerationConfig, LanguageModel, Prompt, TextFinish, TextRequest, TextStream,
};

use crate::open_model;
use crate::options::{EngineOptions, start_quiet_log};

/// Measure how many tokens a second a language model reads and writes.
///
/// For each batch size, that many requests with random prompts run at once in this process. The
/// best of --repeat runs is shown: other programs only ever slow a run down.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  terrace bench llm
  terrace bench llm --batch 1,4,16 --max-batch-size 16 --prompt-tokens 1024 --new-tokens 64
  terrace bench llm --json > bench.json")]
pub struct LlmArgs {
    /// Requests that run at once; several sizes are measured one after the other.
    #[arg(long, value_name = "REQUESTS", value_delimiter = ',', default_value = "1,8")]
    batch: Vec<usize>,

    /// Tokens of each prompt.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    prompt_tokens: usize,

    /// Tokens of each answer.
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    new_tokens: usize,

    /// Runs of each size.
    #[arg(long, value_name = "RUNS", default_value_t = 3)]
    repeat: usize,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    engine: EngineOptions,
}

#[derive(Serialize)]
struct Report {
    model: String,
    threads: usize,
    prompt_tokens: usize,
    new_tokens: usize,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Serialize)]
struct Row {
    batch: usize,
    /// Prompt tokens a second, all requests together.
    read_per_second: f64,
    /// New tokens a second, all requests together.
    written_per_second: f64,
    first_token_ms: f64,
    /// Between two tokens of one request.
    next_token_ms: f64,
}

pub fn run(args: &LlmArgs) -> Result<()> {
    start_quiet_log();
    if args.new_tokens < 2 || args.prompt_tokens == 0 || args.repeat == 0 || args.batch.contains(&0)
    {
        bail!("give at least 2 new tokens, 1 prompt token, 1 run and batches of 1 or more");
    }
    let model = open_model::open(&args.engine)?;
    let mut prompts = RandomPrompts { state: 1, vocab: model.tokenizer().vocab_size() as u64 };
    let mut rows = Vec::new();
    for &batch in &args.batch {
        // The first run also brings the weights into memory.
        let runs = (0..=args.repeat).map(|_| measure(&model, args, batch, &mut prompts));
        let runs = runs.skip(1).collect::<Result<Vec<Row>>>()?;
        rows.push(best(&runs));
    }
    let report = Report {
        model: model.name().to_owned(),
        threads: model.memory().threads,
        prompt_tokens: args.prompt_tokens,
        new_tokens: args.new_tokens,
        rows,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_table(&report);
    }
    Ok(())
}

fn measure(
    model: &LanguageModel,
    args: &LlmArgs,
    batch: usize,
    prompts: &mut RandomPrompts,
) -> Result<Row> {
    let generation = GenerationConfig {
        max_new_tokens: Some(args.new_tokens),
        ignore_eos: Some(true),
        do_sample: Some(false),
        ..GenerationConfig::default()
    };
    let prompts: Vec<_> =
        (0..batch).map(|_| Prompt::Tokens(prompts.next(args.prompt_tokens))).collect();
    let submit = |prompt| Ok(model.submit(TextRequest::new(prompt, generation.clone()))?);
    let start = Instant::now();
    let streams: Vec<TextStream> = prompts.into_iter().map(submit).collect::<Result<_>>()?;
    let times = std::thread::scope(|scope| {
        let readers: Vec<_> =
            streams.into_iter().map(|stream| scope.spawn(move || token_times(stream))).collect();
        let times = readers.into_iter().map(|reader| reader.join().expect("readers do not panic"));
        times.collect::<Result<Vec<Vec<Instant>>>>()
    })?;

    let started = times.iter().map(|times| times[0]).max().expect("a batch is never empty");
    let ended = times.iter().map(|times| times[times.len() - 1]).max().expect("as above");
    let written = times.iter().flatten().filter(|&&time| time > started).count();
    let per_request = (args.new_tokens - 1) as f64;
    let spans = times.iter().map(|times| ms(times[times.len() - 1] - times[0]) / per_request);
    Ok(Row {
        batch,
        read_per_second: (batch * args.prompt_tokens) as f64 / (started - start).as_secs_f64(),
        written_per_second: written as f64 / (ended - started).as_secs_f64(),
        first_token_ms: ms(started - start),
        next_token_ms: spans.sum::<f64>() / batch as f64,
    })
}

/// When each token came.
fn token_times(mut stream: TextStream) -> Result<Vec<Instant>> {
    let mut times = Vec::new();
    while let Some(event) = stream.next_blocking() {
        times.extend(event.tokens.iter().map(|_| Instant::now()));
        if event.finish == Some(TextFinish::Failed) || event.finish == Some(TextFinish::Cancelled) {
            bail!("a request did not finish; the log above says why");
        }
    }
    Ok(times)
}

fn best(runs: &[Row]) -> Row {
    let rate = |row: &Row| row.read_per_second + row.written_per_second;
    let best = runs.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    *best.expect("there is at least one run")
}

fn print_table(report: &Report) {
    let Report { model, threads, prompt_tokens, new_tokens, rows } = report;
    println!("{model}, {threads} threads, prompts of {prompt_tokens}, answers of {new_tokens}\n");
    println!(
        "{:>5}  {:>11}  {:>14}  {:>12}  {:>11}",
        "batch", "read tok/s", "written tok/s", "first token", "next token"
    );
    for row in rows {
        println!(
            "{:>5}  {:>11.1}  {:>14.1}  {:>9.1} ms  {:>8.1} ms",
            row.batch,
            row.read_per_second,
            row.written_per_second,
            row.first_token_ms,
            row.next_token_ms
        );
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Prompts that differ from each other, the same in every run of the program.
struct RandomPrompts {
    state: u64,
    vocab: u64,
}

impl RandomPrompts {
    fn next(&mut self, tokens: usize) -> Vec<TokenId> {
        (0..tokens).map(|_| self.next_token()).collect()
    }

    fn next_token(&mut self) -> TokenId {
        // Knuth's MMIX generator; its high bits are good enough to tell prompts apart.
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.state >> 33) % self.vocab) as TokenId
    }
}
