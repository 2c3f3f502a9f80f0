//! The one binary: reads the command line and hands over to the subcommand.
//!
//! Exit status: 0 if all went well, 1 if something failed, 2 if the command line or the settings
//! file is wrong; 128 plus the signal's number if a second signal ended a server that was stopping.

#![forbid(unsafe_code)]

mod argv;
mod broken_pipe;
mod byte_size;
mod cli;
mod commands;
mod memory_lines;
mod model_files;
mod model_repository;
mod open_files;
mod open_folder;
mod open_model;
mod open_ranking;
mod open_repository;
mod open_tables;
mod option_tips;
mod options;
mod progress;
mod ps_source;
mod settings_file;
mod stop_signals;
mod table_databases;
mod time_span;

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

use crate::cli::Command;

/// Gives back what a burst of large requests has left, whichever thread took it: glibc's keeps it
/// in the threads' arenas, mimalloc until those threads come back. Its options stand in
/// `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const USAGE: u8 = 2;

fn main() -> ExitCode {
    broken_pipe::end_quietly();
    let cli = match argv::settle(std::env::args_os()).and_then(settings_file::parse) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let done = match &cli.command {
        Command::Serve(args) => commands::serve::run(args),
        Command::Chat(args) => commands::chat::run(args),
        Command::Generate(args) => commands::generate::run(args),
        Command::FinetuneLongLora(args) => commands::finetune::run_lora(args),
        Command::FinetuneLongFull(args) => commands::finetune::run_full(args),
        Command::FinetuneOffloadLora(args) => commands::finetune::run_offload_lora(args),
        Command::FinetuneOffloadFull(args) => commands::finetune::run_offload_full(args),
        Command::Pull(args) => commands::pull::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Cache(args) => commands::cache::run(args),
        Command::Rank(args) => commands::rank::run(args),
        Command::Predict(args) => commands::predict::run(args),
        Command::Preprocess(args) => commands::preprocess::run(args),
        Command::Ps(args) => commands::ps::run(args),
        Command::Eval(args) => commands::eval::run(args),
        Command::Selftest(args) => commands::selftest::run(args),
        Command::CompileGrammar => commands::compile_grammar::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            exit_code(&error)
        }
    }
}

/// An option that the engine refuses is a wrong command line.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    use terrace_engine::Error;
    match error.downcast_ref() {
        Some(Error::BadOption { .. }) => ExitCode::from(USAGE),
        _ => ExitCode::FAILURE,
    }
}

/// An error and its causes, outermost first. A cause that its effect quotes is not said twice.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}
