//! `terrace rank retrieve`: finds what follows the histories of a file.

use anyhow::Result;
use clap::Args;

use super::request_file::RequestFile;
use super::retrieve_shape::{RetrieveLine, RetrievedLine};

/// Find the items that follow the histories of a file, with a retrieval model.
///
/// A line is one request; a line of results follows for each, in their order, with the best items
/// first.
#[derive(Args, Debug)]
#[command(after_long_help = "A request:
  {\"user\": \"anna\", \"items\": [10, 11], \"actions\": [1, 4], \"count\": 5, \"blocked\": [12]}
on one line. Also known: \"include_seen\" (items of the history may be found), \"times\" and
\"time\" (of each item and of what is to be found, in seconds, for models that look at times), and
what `terrace rank score` takes, without \"candidates\".

Examples:
  terrace rank retrieve requests.jsonl --model models/ml-1m > items.jsonl")]
pub struct RetrieveArgs {
    #[command(flatten)]
    requests: RequestFile,
}

pub fn run(args: &RetrieveArgs) -> Result<()> {
    args.requests.answer(async |engine, _, line: RetrieveLine| {
        let request = line.into_request();
        let user = request.history.user.user.to_string();
        Ok(RetrievedLine::new(user, engine.retrieve(request).await?))
    })
}
