//! The one binary: reads the command line and hands over to the subcommand.
//!
//! Exit status: 0 if all went well, 1 if something failed, 2 if the command line or the settings
//! file is wrong.

#![forbid(unsafe_code)]

mod argv;
mod cli;
mod commands;
mod progress;
mod store;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse_from(argv::with_hyphens(std::env::args_os()));
    let done = match &cli.command {
        Command::Pull(args) => commands::pull::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
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
