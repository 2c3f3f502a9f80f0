//! `terrace rank`: generative recommenders from the command line.

mod convert;
mod engine_choice;
mod eval;
mod gin_choice;
mod history_line;
mod request_file;
mod retrieve;
mod retrieve_shape;
mod score;
mod score_shape;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::convert::ConvertArgs;
use self::eval::EvalArgs;
use self::retrieve::RetrieveArgs;
use self::score::ScoreArgs;

/// Rank candidates, or find items, with a generative recommender (HSTU); convert and evaluate
/// its checkpoints.
#[derive(Args, Debug)]
pub struct RankArgs {
    #[command(subcommand)]
    what: Rank,
}

#[derive(Subcommand, Debug)]
enum Rank {
    Score(ScoreArgs),
    Retrieve(RetrieveArgs),
    Convert(ConvertArgs),
    Eval(Box<EvalArgs>),
}

pub fn run(args: &RankArgs) -> Result<()> {
    match &args.what {
        Rank::Score(args) => score::run(args),
        Rank::Retrieve(args) => retrieve::run(args),
        Rank::Convert(args) => convert::run(args),
        Rank::Eval(args) => eval::run(args),
    }
}
