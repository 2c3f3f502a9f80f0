//! Arguments as people type them, made arguments as the parser knows them.
//!
//! `--max_batch_size` is `--max-batch-size`; flags of vLLM and llama.cpp become the options that
//! mean the same (`options::PeerFlag`) or are answered; `--temperature -1` has a negative number
//! and not a flag behind it. Done once for all options, before they are parsed, so that no option
//! needs an alias and one flag may have several letters behind a single hyphen.

mod arguments;
mod conflicts;
mod own_options;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Error};

use self::arguments::read;
pub use self::own_options::OwnOptions;
use crate::cli::Cli;

/// The arguments with every known option under its own name. What follows a bare `--`, and what
/// is no known option, stays as typed.
pub fn settle(args: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>, Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let root = Cli::command();
    let (command, words) = subcommand(&root, &args);
    let refused = |why: String| Error::raw(ErrorKind::ValueValidation, format!("{why}\n"));
    let typed = read(&args[words..], &OwnOptions::of(command)).map_err(refused)?;
    let mut settled: Vec<OsString> = args[..words].to_vec();
    settled.extend(conflicts::resolve(typed).map_err(refused)?);
    Ok(settled)
}

/// The innermost command that is named, and how many words name it, the program's among them.
pub fn subcommand<'a>(root: &'a clap::Command, args: &[OsString]) -> (&'a clap::Command, usize) {
    let mut command = root;
    let mut words = 1.min(args.len());
    while let Some(inner) = args.get(words).and_then(|arg| command.find_subcommand(arg)) {
        command = inner;
        words += 1;
    }
    (command, words)
}

#[cfg(test)]
mod tests;
