//! `terrace cache show`: one handle of a running server.

use anyhow::Result;
use clap::Args;

use super::ROUTE;
use super::handle_shape::HandleShape;
use super::server_client::{ServerArgs, ServerClient, escaped};
use crate::commands::print_report::print_report;

/// Show one KV cache that a server keeps by name.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Its name or id.
    handle: String,

    #[command(flatten)]
    server: ServerArgs,

    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ShowArgs) -> Result<()> {
    let path = format!("{ROUTE}/{}", escaped(&args.handle));
    let handle: HandleShape = ServerClient::new(&args.server).get(&path)?;
    print_report(&handle, args.json)
}
