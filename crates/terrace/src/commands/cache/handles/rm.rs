//! `terrace cache rm`: deletes handles of a running server.

use anyhow::Result;
use clap::Args;
use serde::Deserialize;

use super::ROUTE;
use super::server_client::{ServerArgs, ServerClient, escaped};

/// Delete KV caches that a server keeps by name.
#[derive(Args, Debug)]
pub struct RmArgs {
    /// Their names or ids.
    #[arg(required = true)]
    handles: Vec<String>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Deserialize)]
struct Deleted {
    id: String,
}

pub fn run(args: &RmArgs) -> Result<()> {
    let client = ServerClient::new(&args.server);
    for handle in &args.handles {
        let Deleted { id } = client.delete(&format!("{ROUTE}/{}", escaped(handle)))?;
        println!("deleted {handle} (id {id})");
    }
    Ok(())
}
