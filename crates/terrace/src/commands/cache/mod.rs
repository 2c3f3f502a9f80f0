//! `terrace cache`: what is kept of sequences, to look at.

mod cache_drawing;
mod inspect;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::inspect::InspectArgs;

/// Inspect KV caches.
#[derive(Args, Debug)]
pub struct CacheArgs {
    #[command(subcommand)]
    what: Cache,
}

#[derive(Subcommand, Debug)]
enum Cache {
    Inspect(InspectArgs),
}

pub fn run(args: &CacheArgs) -> Result<()> {
    match &args.what {
        Cache::Inspect(args) => inspect::run(args),
    }
}
