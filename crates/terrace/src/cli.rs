//! What can be typed: the subcommands.

use clap::{Parser, Subcommand};

use crate::commands::bench::BenchArgs;
use crate::commands::cache::CacheArgs;
use crate::commands::chat::ChatArgs;
use crate::commands::compile_grammar;
use crate::commands::eval::EvalArgs;
use crate::commands::generate::GenerateArgs;
use crate::commands::pull::PullArgs;
use crate::commands::selftest::SelftestArgs;
use crate::commands::serve::ServeArgs;

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
    Serve(Box<ServeArgs>),
    Chat(Box<ChatArgs>),
    Generate(Box<GenerateArgs>),
    Pull(PullArgs),
    Bench(BenchArgs),
    Eval(EvalArgs),
    Cache(CacheArgs),
    Selftest(SelftestArgs),
    /// Checks grammars for a server, which starts this itself.
    #[command(hide = true, name = compile_grammar::NAME)]
    CompileGrammar,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_manual_names_every_option_of_the_server() {
        let manual = include_str!("../../../docs/configuration.md");
        let mut command = Cli::command();
        let serve = command.find_subcommand_mut("serve").expect("there is a server");
        for option in serve.get_arguments().filter_map(|arg| arg.get_long()) {
            let named = option == "help" || manual.contains(&format!("`--{option}`"));
            assert!(named, "docs/configuration.md does not name --{option}");
        }
    }
}
