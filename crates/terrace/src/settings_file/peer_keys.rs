//! Keys that are flags of vLLM or llama.cpp (`max_model_len = 8192`), under the names of the
//! options that mean the same.

use toml::{Table, Value};

use super::{flat, values};
use crate::argv::OwnOptions;
use crate::options::{Arity, OwnOption, PeerFlag};

/// The file with options of ours alone, in its `[[models]]` too. Keys that nobody knows stay.
pub fn with_own_names(file: Table, options: &OwnOptions<'_>) -> Result<Table, String> {
    let mut renamed = Table::new();
    let mut of_peers = Vec::new();
    for (key, value) in flat(&file) {
        match (peer_flag(&key, options), value) {
            (Some(flag), value) => of_peers.push((key, flag, value)),
            (None, Value::Array(list)) => {
                let in_list = |value| match value {
                    Value::Table(table) => with_own_names(table, options).map(Value::Table),
                    other => Ok(other),
                };
                let list = list.into_iter().map(in_list).collect::<Result<_, _>>()?;
                renamed.insert(key, Value::Array(list));
            }
            (None, value) => drop(renamed.insert(key, value)),
        }
    }
    for (key, flag, value) in of_peers {
        let Some(own) = own_option(&key, flag, &value)? else { continue };
        let is_same = |(name, _): &(&String, &Value)| name.replace('_', "-") == own.option;
        if let Some((name, before)) = renamed.iter().find(is_same) {
            if values(name, before)? != [own.value] {
                return Err(format!("'{key}' and '{name}' are one option; give one of them"));
            }
            continue;
        }
        renamed.insert(own.option.to_owned(), Value::String(own.value));
    }
    Ok(renamed)
}

fn peer_flag(key: &str, options: &OwnOptions<'_>) -> Option<&'static PeerFlag> {
    let name = format!("--{}", key.replace('_', "-"));
    let is_own = options.long(key).is_some();
    let flag = PeerFlag::find(&name).filter(|_| !is_own)?;
    options.long(flag.needs_option()).map(|_| flag)
}

fn own_option(key: &str, flag: &PeerFlag, value: &Value) -> Result<Option<OwnOption>, String> {
    let wrong = |why: &str| format!("'{key}': {why}");
    let given = values(key, value)?;
    let given = match (flag.arity, given.as_slice()) {
        (Arity::Switch, [only]) if only == "true" => None,
        (Arity::Switch, _) => return Err(wrong("it can be true, or left out")),
        (_, [only]) => Some(only.as_str()),
        (_, _) => return Err(wrong("it takes one value")),
    };
    flag.own_option(given).map_err(|why| wrong(&why))
}
