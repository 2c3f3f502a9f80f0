//! `[[models]]` of a settings file: several models, each with options of its own.
//!
//! A table has `model` (as `--model`), may have `name`, and any option of the engine; what it
//! leaves out is as in the rest of the file. It becomes the file it would be if this were the only
//! model.

use clap::{Args, Command};
use toml::{Table, Value};

use super::flat;
use crate::options::EngineOptions;

const MODELS: &str = "models";

/// The file without its models, and for each of them the file with its table spread out in it.
pub fn split(mut file: Table) -> Result<(Table, Vec<Table>), String> {
    let Some(models) = file.remove(MODELS) else { return Ok((file, Vec::new())) };
    if file.contains_key("model") {
        return Err("'model' stands beside [[models]]; put it into one of them".to_owned());
    }
    let Value::Array(models) = models else { return Err(shape()) };
    let spread = models.into_iter().map(|model| match model {
        Value::Table(model) => spread(&file, model),
        _ => Err(shape()),
    });
    let spread = spread.collect::<Result<_, _>>()?;
    Ok((file, spread))
}

fn spread(file: &Table, mut model: Table) -> Result<Table, String> {
    let name = model.remove("name");
    let file = &flat(file);
    let mut model = flat(&model);
    let Some(Value::String(source)) = model.remove("model") else {
        return Err("a table of [[models]] needs model = \"PATH_OR_NAME\"".to_owned());
    };
    let engine = EngineOptions::augment_args(Command::new(MODELS));
    let is_known = |key: &str| engine.get_arguments().any(|arg| arg.get_long() == Some(key));
    if let Some(key) = model.keys().find(|key| !is_known(&key.replace('_', "-"))) {
        return Err(format!("'{key}' cannot be set for one of [[models]]"));
    }
    let source = match name {
        Some(Value::String(name)) => format!("{name}={source}"),
        None => source,
        Some(_) => return Err("the name of a model must be a string".to_owned()),
    };
    // Whichever way the file spells an option, the model's own goes before it.
    let hyphens = |(key, value): (String, Value)| (key.replace('_', "-"), value);
    let mut all: Table = file.clone().into_iter().map(hyphens).collect();
    all.extend(model.into_iter().map(hyphens));
    all.insert("model".to_owned(), Value::String(source));
    Ok(all)
}

fn shape() -> String {
    "'models' must be tables: [[models]], then name, model and its options".to_owned()
}
