//! Options from a TOML file: whatever a command takes as `--name value`, the file may hold as
//! `name = value`.
//!
//! The file has no schema of its own. Its entries become arguments, where nothing was typed, and
//! are parsed by the same rules with the same messages. So the command line wins over the file,
//! the file over the defaults, and no option can be known to one and not to the other. Options with
//! dots in their names may stand in tables: `name` of `[kv_cache]` is `--kv-cache.name`. Of lists
//! of tables there is one, `[[models]]`, see `model_tables`. `[ps]` is a configuration of its own,
//! see `ps_table`.

mod model_tables;
mod peer_keys;
mod ps_table;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, Error, FromArgMatches};
use terrace_model::near_names;
use toml::{Table, Value};

use crate::argv::{self, OwnOptions};
use crate::cli::{Cli, Command};
use crate::option_tips::with_own_tip;

/// The option that names the file.
const CONFIG: &str = "config";
/// The option that names a model, and the argument that does so without an option.
const MODEL: &str = "model";
const BARE_MODEL: &str = "bare_model";
/// The option that names a parameter server's configuration, which the file may have in itself.
const PS: &str = "ps";

/// Parses the arguments, and those in the settings file they name, if they name one.
pub fn parse(args: Vec<OsString>) -> Result<Cli, Error> {
    let mut command = Cli::command();
    let typed = command
        .try_get_matches_from_mut(&args)
        .map_err(|error| with_own_tip(error, argv::subcommand(&command, &args).0))?;
    let (name, options) = typed.subcommand().expect("the parser asks for a subcommand");
    let Some(path) = config_path(options) else { return cli_of(&typed) };

    let wrong =
        |kind, why: &str| Error::raw(kind, format!("settings file {}: {why}\n", path.display()));
    let refused = |why: String| wrong(ErrorKind::ValueValidation, &why);
    let text = std::fs::read_to_string(&path).map_err(|e| wrong(ErrorKind::Io, &e.to_string()))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| refused(error.to_string()))?;
    let subcommand = command.find_subcommand(name).expect("it was just parsed").clone();
    let own = OwnOptions::of(&subcommand);
    let (table, tables) = match own.long(PS) {
        Some(_) => ps_table::split(table, &path).map_err(refused)?,
        None => (table, None),
    };
    let table = peer_keys::with_own_names(table, &own).map_err(refused)?;
    let (table, models) = model_tables::split(table).map_err(refused)?;
    let mut with_entries = |entries: &Table| {
        let from_file = arguments(entries, &subcommand, options).map_err(refused)?;
        let mut args = args.clone();
        // Right after the subcommand, which is the first argument: no option comes before it.
        args.splice(2..2, from_file);
        let all = command.try_get_matches_from_mut(&args);
        let all = all.map_err(|error| wrong(error.kind(), &essence(&error)))?;
        cli_of(&all)
    };
    let mut cli = with_entries(&table)?;
    // What is typed wins, models too.
    if !names_models(options) {
        for model in models {
            let Command::Serve(own) = with_entries(&model)?.command else { break };
            if let Command::Serve(serve) = &mut cli.command {
                serve.models.push(own.engine);
            }
        }
    }
    if let Command::Serve(serve) = &mut cli.command {
        serve.tables.inline = tables;
    }
    Ok(cli)
}

/// Whether a model is named is known to the parser alone: there is always one.
fn cli_of(matches: &ArgMatches) -> Result<Cli, Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    if let (Command::Serve(serve), Some((_, options))) = (&mut cli.command, matches.subcommand()) {
        serve.names_models = names_models(options);
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
    let options = OwnOptions::of(command);
    let mut arguments = Vec::new();
    for (key, value) in &flat(table) {
        let values = values(key, value)?;
        let name = key.replace('_', "-");
        let Some(option) = options.long(&name).filter(|option| is_key(option.long)) else {
            return Err(unknown_key(key, &name, &options));
        };
        let typed_model = option.long == MODEL && names_models(typed);
        if typed_model || is_typed(typed, option.id()) {
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

/// Whether an option may stand in the file.
fn is_key(name: &str) -> bool {
    !matches!(name, "help" | CONFIG)
}

/// Whether models were typed, as options or without one.
fn names_models(typed: &ArgMatches) -> bool {
    is_typed(typed, MODEL) || is_typed(typed, BARE_MODEL)
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

fn unknown_key(key: &str, name: &str, options: &OwnOptions<'_>) -> String {
    let near = near_names(name, options.names().filter(|&name| is_key(name)));
    if near.is_empty() {
        return format!("unknown key '{key}'; --help lists all options");
    }
    format!("unknown key '{key}'; near ones: {}", near.join(", "))
}

/// A parser's message without its frame, to be put in ours.
fn essence(error: &Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\nFor more information").next().unwrap_or(text).trim().to_owned()
}

#[cfg(test)]
mod tests;
