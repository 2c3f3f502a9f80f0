//! `terrace generate`: prompts in, texts out.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use terrace_engine::text::{
    GenerationConfig, Prompt, TextEvent, TextFinish, TextRequest, TextStream,
};
use terrace_engine::{CacheTrace, TokenId};

use crate::open_model;
use crate::options::{EngineOptions, SamplingOptions, at_least_one, start_quiet_log};

/// A model without an end-of-text token must not fill its whole context unasked.
const DEFAULT_NEW_TOKENS: usize = 256;

/// Continue one prompt or many, and print the texts.
///
/// Prompts are taken as they are, without a chat template; to talk to a chat model, use
/// `terrace chat`. Many prompts are computed together, and printed in the order given.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  terrace generate 'Once upon a time' --max-new-tokens 40
  echo 'The capital of France is' | terrace generate --temperature 0.7 --do-sample --seed 1
  terrace generate --file prompts.txt --json > outputs.jsonl
  terrace generate --model ./Qwen2.5-0.5B 'def fib(n):' --stop '\n\n' --token-ids")]
pub struct GenerateArgs {
    /// Prompts, each one argument. Without any, and without --file, all of standard input is one.
    prompts: Vec<String>,

    /// Read prompts from this file, one a line; - is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompts")]
    file: Option<PathBuf>,

    /// Most tokens of an output. Left out: 256, or what the model's context leaves.
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one::<usize>)]
    max_new_tokens: Option<usize>,

    /// Outputs of each prompt; they differ only with --do-sample.
    #[arg(short, long, value_name = "OUTPUTS", value_parser = at_least_one::<usize>)]
    n: Option<usize>,

    /// Print one JSON object for each prompt: text, token ids, why it ended, counts.
    #[arg(long)]
    json: bool,

    /// Print the ids of the new tokens instead of their text.
    #[arg(long, conflicts_with = "json")]
    token_ids: bool,

    /// Write what the cache of each output held when it ended, for `terrace cache inspect`.
    #[arg(long, value_name = "FILE")]
    cache_trace: Option<PathBuf>,

    #[command(flatten)]
    sampling: SamplingOptions,
    #[command(flatten)]
    engine: EngineOptions,
}

#[derive(Serialize)]
struct Outputs {
    prompt: String,
    prompt_tokens: usize,
    choices: Vec<Output>,
}

#[derive(Clone, Default, Serialize)]
struct Output {
    text: String,
    token_ids: Vec<TokenId>,
    finish_reason: &'static str,
}

pub fn run(args: &GenerateArgs) -> Result<()> {
    start_quiet_log();
    let prompts = prompts(args)?;
    let model = open_model::open(&args.engine)?;
    let generation = GenerationConfig {
        max_new_tokens: args.max_new_tokens,
        n: args.n,
        ..args.sampling.generation()
    };
    let submit = |prompt: String| {
        let request = TextRequest {
            default_new_tokens: Some(DEFAULT_NEW_TOKENS),
            cache_trace: args.cache_trace.is_some(),
            ..TextRequest::new(Prompt::Text(prompt.clone()), generation.clone())
        };
        Ok((prompt, model.submit(request)?))
    };
    // All are submitted before the first is read, so that they are computed together.
    let streams: Vec<(String, TextStream)> =
        prompts.into_iter().map(submit).collect::<Result<_>>()?;

    let choices = args.n.unwrap_or(1);
    let mut printer = Printer { args, many: streams.len() * choices > 1, out: io::stdout().lock() };
    let mut traces: Vec<CacheTrace> = Vec::new();
    for (index, (prompt, mut stream)) in streams.into_iter().enumerate() {
        let mut outputs = vec![Output::default(); choices];
        while let Some(event) = stream.next_blocking() {
            printer.event(&event)?;
            collect(&mut outputs, event)?;
        }
        traces.extend_from_slice(stream.cache_traces());
        let prompt_tokens = stream.prompt_tokens().len();
        printer.outputs(index, &Outputs { prompt, prompt_tokens, choices: outputs })?;
    }
    if let Some(path) = &args.cache_trace {
        std::fs::write(path, serde_json::to_string(&traces)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A single output is printed as it is decoded; many, or other formats, when they are complete.
struct Printer<'a> {
    args: &'a GenerateArgs,
    many: bool,
    out: io::StdoutLock<'a>,
}

impl Printer<'_> {
    fn event(&mut self, event: &TextEvent) -> io::Result<()> {
        if self.streams() {
            self.out.write_all(event.text.as_bytes())?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn outputs(&mut self, index: usize, outputs: &Outputs) -> io::Result<()> {
        if self.streams() {
            return writeln!(self.out);
        }
        if self.args.json {
            return writeln!(self.out, "{}", serde_json::json!(outputs));
        }
        for (choice, output) in outputs.choices.iter().enumerate() {
            if self.many {
                writeln!(self.out, "--- prompt {}, output {}", index + 1, choice + 1)?;
            }
            if self.args.token_ids {
                writeln!(self.out, "{:?}", output.token_ids)?;
            } else {
                writeln!(self.out, "{}", output.text)?;
            }
        }
        Ok(())
    }

    fn streams(&self) -> bool {
        !(self.many || self.args.json || self.args.token_ids)
    }
}

fn collect(outputs: &mut [Output], event: TextEvent) -> Result<()> {
    let output = &mut outputs[event.choice];
    output.text.push_str(&event.text);
    output.token_ids.extend(event.tokens.iter().map(|token| token.id));
    output.finish_reason = match event.finish {
        None => return Ok(()),
        Some(TextFinish::StopToken(_) | TextFinish::StopText(_)) => "stop",
        Some(TextFinish::Length) => "length",
        Some(TextFinish::Cancelled) => "cancelled",
        Some(TextFinish::Failed(failure)) => return Err(failure.into()),
    };
    Ok(())
}

fn prompts(args: &GenerateArgs) -> Result<Vec<String>> {
    let prompts = match &args.file {
        Some(path) => read(path)?.lines().map(str::to_owned).collect(),
        None if args.prompts.is_empty() => vec![read(Path::new("-"))?.trim_end().to_owned()],
        None => args.prompts.clone(),
    };
    let prompts: Vec<String> = prompts.into_iter().filter(|prompt| !prompt.is_empty()).collect();
    if prompts.is_empty() {
        bail!("no prompt; give one as an argument, in --file, or on standard input");
    }
    Ok(prompts)
}

fn read(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
