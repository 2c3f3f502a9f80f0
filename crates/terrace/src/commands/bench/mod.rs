//! `terrace bench`: how fast this machine is.

mod decode_window;
mod engine_run;
mod llm;
mod llm_report;
mod measured_model;
mod random_prompts;
mod spread;
mod step_floor;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::llm::LlmArgs;

/// Measure speed on this machine.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Subcommand, Debug)]
enum Bench {
    Llm(Box<LlmArgs>),
}

pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.what {
        Bench::Llm(args) => llm::run(args),
    }
}
