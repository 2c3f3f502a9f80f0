//! `terrace rank`: generative recommenders from the command line.

mod score;
mod score_shape;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::score::ScoreArgs;

/// Rank candidates with a generative recommender (HSTU).
#[derive(Args, Debug)]
pub struct RankArgs {
    #[command(subcommand)]
    what: Rank,
}

#[derive(Subcommand, Debug)]
enum Rank {
    Score(ScoreArgs),
}

pub fn run(args: &RankArgs) -> Result<()> {
    match &args.what {
        Rank::Score(args) => score::run(args),
    }
}
