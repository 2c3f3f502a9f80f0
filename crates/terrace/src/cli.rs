//! What can be typed: the subcommands.

use clap::{Parser, Subcommand};

use crate::commands::pull::PullArgs;

/// Serves language models on this machine, behind an OpenAI-shaped HTTP API.
#[derive(Parser, Debug)]
#[command(
    name = "terrace",
    version,
    after_help = "Start here:
  terrace serve                         # then talk to http://127.0.0.1:8000
  terrace chat                          # the same model in this terminal
Every option may be written with hyphens or underscores (--max-batch-size, --max_batch_size)."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Pull(PullArgs),
}
