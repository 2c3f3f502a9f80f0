//! `terrace rank score`: scores the requests of a file.

use anyhow::Result;
use clap::Args;

use super::request_file::RequestFile;
use super::score_shape::{ScoreLine, ScoredLine};

/// Score the requests of a file, one after the other, with a cache for the users in it.
///
/// A line is one request; a line of results follows for each, in their order.
#[derive(Args, Debug)]
#[command(after_long_help = "A request:
  {\"user\": \"anna\", \"context\": [3, 1], \"items\": [10, 11], \"actions\": [1, 4],
   \"candidates\": [12, 13, 14]}
on one line. \"context\" has an id for each contextual feature of the model, \"actions\" one for
each item (neither where the model has none). Also known: \"tenant\", \"priority\", \"strict\"
(refuse ids that a table has not got), \"start\" (the position of the first token that is given).

Examples:
  terrace rank score requests.jsonl --model models/kuairand
  terrace rank score requests.jsonl --model models/kuairand --truncate recent > scores.jsonl")]
pub struct ScoreArgs {
    #[command(flatten)]
    requests: RequestFile,
}

pub fn run(args: &ScoreArgs) -> Result<()> {
    args.requests.answer(async |engine, model, line: ScoreLine| {
        let request = line.into_request();
        let output = engine.rank(request.clone()).await?;
        Ok(ScoredLine::new(&request, output, model.num_tasks == 1))
    })
}
