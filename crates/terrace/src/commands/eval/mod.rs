//! `terrace eval`: how good outputs are, not how fast they come.

mod cache_case;
mod kv;
mod kv_report;
mod line_plot;
mod needle;
mod needle_prompts;
mod perplexity;
mod run;
mod table;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::kv::KvEvalArgs;
pub use self::run::Requests;

/// Measure how settings change output quality.
#[derive(Args, Debug)]
pub struct EvalArgs {
    #[command(subcommand)]
    what: Eval,
}

#[derive(Subcommand, Debug)]
enum Eval {
    Kv(Box<KvEvalArgs>),
}

pub fn run(args: &EvalArgs) -> Result<()> {
    match &args.what {
        Eval::Kv(args) => kv::run(args),
    }
}
