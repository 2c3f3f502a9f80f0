//! Options from a TOML file: whatever a command takes as `--name value`, the file may hold as
//! `name = value`.
//!
//! The file has no schema of its own. Its entries become arguments, where nothing was typed, and
//! are parsed by the same rules with the same messages. So the command line wins over the file,
//! the file over the defaults, and no option can be known to one and not to the other. Options with
//! dots in their names may stand in tables: `name` of `[kv_cache]` is `--kv-cache.name`. Of lists
//! of tables there is one, `[[models]]`, see `model_tables`.

mod model_tables;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, Error, FromArgMatches};
use toml::{Table, Value};

use crate::cli::{Cli, Command};

/// The option that names the file.
const CONFIG: &str = "config";

/// How many letters a key may differ from an option to be taken for a slip.
const SLIP_LETTERS: usize = 2;

/// Parses the arguments, and those in the settings file they name, if they name one.
pub fn parse(args: Vec<OsString>) -> Result<Cli, Error> {
    let mut command = Cli::command();
    let typed = command.try_get_matches_from_mut(&args)?;
    let (name, options) = typed.subcommand().expect("the parser asks for a subcommand");
    let Some(path) = config_path(options) else { return Cli::from_arg_matches(&typed) };

    let wrong =
        |kind, why: &str| Error::raw(kind, format!("settings file {}: {why}\n", path.display()));
    let refused = |why: String| wrong(ErrorKind::ValueValidation, &why);
    let text = std::fs::read_to_string(&path).map_err(|e| wrong(ErrorKind::Io, &e.to_string()))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| refused(error.to_string()))?;
    let (table, models) = model_tables::split(table).map_err(refused)?;
    let subcommand = command.find_subcommand(name).expect("it was just parsed").clone();
    let mut with_entries = |entries: &Table| {
        let from_file = arguments(entries, &subcommand, options).map_err(refused)?;
        let mut args = args.clone();
        // Right after the subcommand, which is the first argument: no option comes before it.
        args.splice(2..2, from_file);
        let all = command.try_get_matches_from_mut(&args);
        let all = all.map_err(|error| wrong(error.kind(), &essence(&error)))?;
        Cli::from_arg_matches(&all)
    };
    let mut cli = with_entries(&table)?;
    // What is typed wins, models too.
    if !is_typed(options, "model") {
        for model in models {
            let Command::Serve(own) = with_entries(&model)?.command else { break };
            if let Command::Serve(serve) = &mut cli.command {
                serve.models.push(own.engine);
            }
        }
    }
    Ok(cli)
}

fn config_path(options: &ArgMatches) -> Option<PathBuf> {
    // Most subcommands have no such option, which is an error of its own here.
    options.try_get_one::<PathBuf>(CONFIG).ok().flatten().cloned()
}

/// The file's entries as arguments, without those that were typed.
fn arguments(
    table: &Table,
    command: &clap::Command,
    typed: &ArgMatches,
) -> Result<Vec<OsString>, String> {
    let is_option = |arg: &&Arg| !matches!(arg.get_id().as_str(), "help" | CONFIG);
    let options: Vec<&Arg> = command.get_arguments().filter(is_option).collect();
    let mut arguments = Vec::new();
    for (key, value) in &flat(table) {
        let values = values(key, value)?;
        let name = key.replace('_', "-");
        let Some(option) = options.iter().find(|option| option.get_long() == Some(&name)) else {
            return Err(unknown_key(key, &name, &options));
        };
        if is_typed(typed, option.get_id().as_str()) {
            continue;
        }
        arguments.extend(values.iter().map(|value| format!("--{name}={value}").into()));
    }
    Ok(arguments)
}

/// Entries of tables in the table with their names joined by dots, as options are named.
fn flat(table: &Table) -> Table {
    let mut entries = Table::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                let named =
                    flat(inner).into_iter().map(|(name, value)| (format!("{key}.{name}"), value));
                entries.extend(named);
            }
            other => drop(entries.insert(key.clone(), other.clone())),
        }
    }
    entries
}

fn is_typed(typed: &ArgMatches, id: &str) -> bool {
    // A subcommand that has no such option has none that is typed.
    typed.try_contains_id(id).is_ok() && typed.value_source(id) == Some(ValueSource::CommandLine)
}

/// A list is an option given several times.
fn values(key: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(vec![value.to_string()]),
        Value::Array(list) => {
            let parts: Result<Vec<_>, _> = list.iter().map(|value| values(key, value)).collect();
            Ok(parts?.concat())
        }
        Value::Table(_) => Err(format!("'{key}' is a list of tables; only [[models]] is one")),
        Value::Datetime(_) => Err(format!("'{key}' is a date; no option takes one")),
    }
}

fn unknown_key(key: &str, name: &str, options: &[&Arg]) -> String {
    let mut near: Vec<(usize, &str)> = options
        .iter()
        .filter_map(|option| option.get_long())
        .map(|known| (edits(name, known), known))
        .filter(|&(edits, known)| edits <= SLIP_LETTERS || known.contains(name))
        .collect();
    near.sort_unstable();
    let near: Vec<&str> = near.into_iter().map(|(_, known)| known).collect();
    if near.is_empty() {
        return format!("unknown key '{key}'; --help lists all options");
    }
    format!("unknown key '{key}'; near ones: {}", near.join(", "))
}

/// Letters to insert, drop or change to make `b` of `a`.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// A parser's message without its frame, to be put in ours.
fn essence(error: &Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\nFor more information").next().unwrap_or(text).trim().to_owned()
}

#[cfg(test)]
mod tests;
