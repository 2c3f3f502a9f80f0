//! `terrace bench`: how fast this machine is.

mod llm;

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
