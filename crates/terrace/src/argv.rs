//! Spelling of options: `--max_batch_size` is `--max-batch-size`.
//!
//! Done once for all options, before they are parsed, so that no option needs an alias.

use std::collections::HashSet;
use std::ffi::OsString;

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// The arguments with underscores in the names of known options made hyphens. What follows a
/// bare `--`, and what is no known option, stays as typed.
pub fn with_hyphens(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let known = long_options(&Cli::command());
    let mut options_end = false;
    let mut respelled = Vec::new();
    for arg in args {
        options_end |= arg == "--";
        let better = arg.to_str().filter(|_| !options_end).and_then(|arg| respell(arg, &known));
        respelled.push(better.map_or(arg, OsString::from));
    }
    respelled
}

fn respell(arg: &str, known: &HashSet<String>) -> Option<String> {
    let body = arg.strip_prefix("--")?;
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (body, None),
    };
    let name = name.replace('_', "-");
    if !known.contains(&name) {
        return None;
    }
    Some(match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    })
}

fn long_options(command: &Command) -> HashSet<String> {
    let mut names: HashSet<String> =
        command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    for sub in command.get_subcommands() {
        names.extend(long_options(sub));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &str, want: &str) {
        let args = args.split(' ').map(OsString::from);
        let respelled = with_hyphens(args);
        let words: Vec<&str> = respelled.iter().filter_map(|arg| arg.to_str()).collect();
        assert_eq!(words.join(" "), want);
    }

    #[test]
    fn underscores_in_known_options_become_hyphens() {
        check("terrace serve --max_batch_size 4", "terrace serve --max-batch-size 4");
        check("terrace serve --kv_cache-dtype=a_b", "terrace serve --kv-cache-dtype=a_b");
    }

    #[test]
    fn all_else_stays_as_typed() {
        check("terrace serve --no_such_option -m a_b", "terrace serve --no_such_option -m a_b");
        check("terrace generate -- --max_batch_size", "terrace generate -- --max_batch_size");
        check("terrace generate a_b", "terrace generate a_b");
    }
}
