//! `terrace cache`: what is kept of sequences, to look at and to keep by name.

mod cache_drawing;
mod handles;
mod inspect;
mod level_table;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::handles::{ExportArgs, ImportArgs, ListArgs, RmArgs, SaveArgs, ShowArgs};
use self::inspect::InspectArgs;

/// Inspect KV caches, and keep them by name.
#[derive(Args, Debug)]
pub struct CacheArgs {
    #[command(subcommand)]
    what: Cache,
}

#[derive(Subcommand, Debug)]
enum Cache {
    Inspect(InspectArgs),
    Save(Box<SaveArgs>),
    List(ListArgs),
    Show(ShowArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Rm(RmArgs),
}

pub fn run(args: &CacheArgs) -> Result<()> {
    match &args.what {
        Cache::Inspect(args) => inspect::run(args),
        Cache::Save(args) => handles::save(args),
        Cache::List(args) => handles::list(args),
        Cache::Show(args) => handles::show(args),
        Cache::Export(args) => handles::export(args),
        Cache::Import(args) => handles::import(args),
        Cache::Rm(args) => handles::rm(args),
    }
}
