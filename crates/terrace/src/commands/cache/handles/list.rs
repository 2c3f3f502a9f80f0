//! `terrace cache list`: the handles of a running server.

use std::fmt;

use anyhow::Result;
use clap::Args;

use super::ROUTE;
use super::handle_shape::{HandleList, HandleShape};
use super::server_client::{ServerArgs, ServerClient};

/// List the KV caches that a server keeps by name.
#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ListArgs) -> Result<()> {
    let list: HandleList = ServerClient::new(&args.server).get(ROUTE)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&list)?);
    } else if list.data.is_empty() {
        println!("No handles yet. Make one: terrace cache save --prompt-file FILE --name NAME");
    } else {
        println!("{}", HandleTable(&list.data));
    }
    Ok(())
}

struct HandleTable<'a>(&'a [HandleShape]);

const TITLES: [&str; 8] = ["name", "id", "tokens", "size", "age", "expires", "pinned", "durable"];

impl HandleTable<'_> {
    fn rows(&self) -> Vec<[String; 8]> {
        let yes_or_no = |flag: bool| (if flag { "yes" } else { "no" }).to_owned();
        let row = |handle: &HandleShape| {
            [
                handle.name.clone(),
                handle.id.clone(),
                handle.tokens.to_string(),
                handle.size().to_string(),
                handle.age().to_string(),
                handle.expires(),
                yes_or_no(handle.pinned),
                yes_or_no(handle.durable),
            ]
        };
        let titles = TITLES.map(str::to_owned);
        [titles].into_iter().chain(self.0.iter().map(row)).collect()
    }
}

/// As wide as its longest cells.
impl fmt::Display for HandleTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width = |column: usize| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: [usize; 8] = std::array::from_fn(width);
        let line = |row: &[String; 8]| {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        f.write_str(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}
